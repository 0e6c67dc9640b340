"""What programs read of TraceGrade, recorded: JSON of commands and of the API, what is sent, and the rows of views."""
