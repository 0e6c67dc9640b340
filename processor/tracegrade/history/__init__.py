"""Work over stored results: what was judged, read again; what came too late; new rules made from a trace."""
