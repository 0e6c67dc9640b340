"""Jobs: what is done in the background, in a process of its own that is there while there is something to do.

`submit` queues them, cancels them, queues them again and deletes them, for pages, the API and commands; `worker` claims
and runs them, within limits, in the process that `process` starts; what one does is in `suite_job`.
"""
