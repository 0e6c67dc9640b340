"""The journal: the durable, ordered hand-over between the two roles, and the archive that replay reads.

Takes: entries (signal, encoding, tenant, item count, payload bytes) from one writer process.
Gives: to the writer the end position of each, once it is durable; to readers in any process the records in order, with
their receive times, never past the durable end, and a clock before which no later record will be stamped.
May lose: nothing that was answered, unless the disk loses it (``corrupt_bytes`` counts that) or a ``drop_oldest``
consumer is further behind than the size bound (`LocalJournal.trim` counts that). Refuses, for the sender to retry: at
the size bound with a ``refuse`` consumer behind, on a full or failing disk, while shutting down.
Order: that of the appends of one thread; receive times never decrease.
Cost: one write and one fdatasync for everything that waits, a checksum of each payload when it is appended and when it
is read; reading the durable end is a memory access.

On disk::

    lock                              held by the writer; its process id
    durable                           durable end, clock, segment generation: two checksummed slots, mapped by readers
    segments/<first position>.segment records one after the other, none across two files
    set_aside/<from>-<to>.bytes       copies of damaged bytes, for examination

Positions are byte offsets since the journal's first record and are never used twice. At the start the writer cuts what
was torn (never answered), leaves damaged bytes in the middle where they are (readers skip them), and goes on at or
after the published end. After a failed write the file is cut back; after a failed sync it is never written again, and
the next record begins a new segment. `LocalJournal.erase` carries out requested deletions: other files
under the same names, with the same positions and lengths.
"""
