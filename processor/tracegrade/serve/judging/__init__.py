"""The judging thread: it fetches records, judges, appends results and commits positions, in this order.

``loop.py`` does that over a `source.Source`: the journal of this machine (``journal_source.py``, with
``fair_shares.py``), or Kafka (``kafka/``). Both work with its `loop.JudgingParts`: what makes results durable
(``gathered_results.py``, ``results_writer.py``), carries out deletions (``deletions.py``), counts (``metrics.py`` with
``read_sums.py``) and joins judging to delivery in the same process (``hand_over.py``). ``stored_traces.py`` is what the
store knows of earlier traces.

``file_hand_over.py`` and ``turns.py`` join several judges to the process that delivers for them.
"""
