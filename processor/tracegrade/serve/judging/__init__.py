"""The judging thread: it reads records, judges, appends results and commits its position, in this order.

``loop.py`` does that over the journal of this machine, ``kafka/`` over Kafka. Both work with ``parts.py``: what makes
results durable (``results_writer.py``), carries out deletions (``deletions.py``), counts (``metrics.py`` with
``read_sums.py``) and joins judging to delivery in the same process (``hand_over.py``). ``position.py`` and
``fair_shares.py`` are of a journal on disk, ``stored_traces.py`` is what the store knows of earlier traces.

``file_hand_over.py``, ``judged_to.py`` and ``turns.py`` join several judges to the process that delivers for them.
"""
