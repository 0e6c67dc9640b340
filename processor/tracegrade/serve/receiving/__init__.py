"""What the receive role is made of, beside the receivers and forwarders themselves.

``received.py`` says where requests go once they are checked: ``received_on_disk.py`` or ``received_in_kafka.py``. How
far judges are is in ``judge_progress.py`` (with ``unread.py``) and ``judge_snapshots.py``. ``status.py`` shows it;
``metrics_export.py`` and ``access_export.py`` send our own metrics and the access log out.
"""
