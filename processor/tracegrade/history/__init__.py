"""Work over what is stored: what was judged, looked at again."""
