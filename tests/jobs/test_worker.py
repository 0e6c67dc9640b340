"""Jobs from their submission to their end, by a worker in this process, against a scripted server."""

from jobs.place import Placed, right


def test_a_job_runs_each_model_and_tells_all_in_order(place: Placed) -> None:
    here = place(right)
    job = here.submit("m-1", "m-2")
    with here.working():
        done = here.until(job.id, "done")
    assert (done.done, done.total, done.message, done.worker) == (6, 6, "", "")
    assert done.result_ref == job.id
    assert done.runs == ["weather/1", "weather/2"]
    assert [(run.state, run.selection["model"]) for run in here.runs()] == [
        ("complete", "one::m-1"),
        ("complete", "one::m-2"),
    ]
    told = here.events(job.id)
    assert [event.number for event in told] == [*range(1, len(told) + 1)]
    of_model = [event for event in told if event.name.startswith("tool_eval_") and event.name != "tool_eval_init"]
    assert [event.name for event in told[:2]] == ["job_created", "tool_eval_init"]
    assert [event.name for event in told[-2:]] == ["tool_eval_complete", "job_completed"]
    assert [event.name for event in of_model] == [
        *(["tool_eval_progress", "tool_eval_result"] * 3 + ["tool_eval_summary"]) * 2,
        "tool_eval_complete",
    ]
    (init,) = here.events(job.id, "tool_eval_init")
    assert {**init.fields} == {
        "job_id": job.id,
        "eval_id": job.id,
        "targets": ["one::m-1", "one::m-2"],
        "total": 6,
        "current": 0,
        "suite_id": here.suite.id,
        "suite_name": "Weather",
    }
    current = [event.fields["current"] for event in here.events(job.id, "tool_eval_progress")]
    assert current == [1, 2, 3, 4, 5, 6]
    assert here.events(job.id, "job_progress")[-1].fields["percentage"] == 100
