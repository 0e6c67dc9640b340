"""Jobs: what is done in the background, in a process of its own that is there while there is something to do.

`submit` queues them, cancels them and queues them again, for pages, the API and commands; `worker` claims and runs
them, within `limits`; what one does is in `suite_job`.
"""
