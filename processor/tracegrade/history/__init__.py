"""Work over what is stored: what was judged, looked at again; what came too late; a rule begun from a trace."""
