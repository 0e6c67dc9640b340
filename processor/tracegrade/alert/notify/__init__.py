"""Who is notified of incidents, when, and in which words."""
