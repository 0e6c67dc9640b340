"""Results and tool calls as Parquet files, in a folder or in an S3 bucket, for analysis by other programs.

Takes: judged traces, in the order of the results journal.
Gives: one row for each evaluation and one for each tool call, in ``results/tenant=T/date=YYYY-MM-DD/`` and
``tool_calls/...``; the date is that of a trace's first arrival, so that all its revisions are in one folder.
May lose: nothing that the results journal still holds; a row that no Parquet file can hold is counted.
Order: files are cut after a time or a number of rows. Where a cut begins and ends is durable before its first file is
written, so that after a kill the same rows are written into the same files (``cut.py``), and the position in the
results journal follows only when all files are durable.
Cost: a few microseconds for each row; nothing for each span.

``columns.py`` says what a row holds, ``rows.py`` makes rows, ``gathered.py`` holds them until they are written,
``storage.py`` is the folder or the bucket, ``erase.py`` rewrites files without deleted traces. The extra
``tracegrade[parquet]`` brings pyarrow, which is imported where files are written or read and nowhere else.
"""
