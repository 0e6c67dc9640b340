"""The wiring, in stage order: the only package that knows every stage.

`receive_role` and `judge_role` are the two processes of ``serve``; `replay` runs the judge's objects over files or a
stored journal. From assemble on all of them are `record_judge.RecordJudge`.
"""
