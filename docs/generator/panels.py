"""The panels of the dashboards in ``deploy/grafana``: one table, from which `dashboards` makes the JSON."""

from dataclasses import dataclass

EVALUATIONS = "tracegrade_evaluations_total"
RESULTS = 'tenant=~"$tenant",service=~"$service",agent=~"$agent",rule=~"$rule"'
SENT = 'service=~"$service"'
HEALTH = 'job=~"$job",instance=~"$instance"'


@dataclass(frozen=True)
class Panel:
    """One panel.

    ``unit`` is Grafana's. ``kind`` is timeseries, stat (one number now) or table (a row for each series now).
    ``legend`` names a series by its labels. ``exemplars`` asks for traces, one a point. ``links_rule`` opens the rule's
    page. ``empty`` says why a healthy TraceGrade gives no point; "" where it must give one.
    """

    title: str
    query: str
    unit: str
    sentence: str
    legend: str = ""
    kind: str = "timeseries"
    exemplars: bool = False
    links_rule: bool = False
    empty: str = ""


def rate(metric: str, selector: str, by: str) -> str:
    """How much a counter grows in a second, by labels."""
    return f"sum by ({by}) (rate({metric}{{{selector}}}[$__rate_interval]))"


def counted(outcome: str, by: str) -> str:
    """Evaluations of the shown time, by labels.

    increase() does not see what a series counted before its first scrape; of a series that is younger than the shown
    time, all that it counted is of it.
    """
    own = f'{EVALUATIONS}{{{RESULTS},outcome=~"{outcome}"}}'
    created = f'tracegrade_evaluations_created{{{RESULTS},outcome=~"{outcome}"}} > time() - $__range_s'
    young, grown = f"({own} and {created})", f"increase({own}[$__range])"
    return f"sum by ({by}) ({young} >= {grown} or {grown} or {young})"


def share(outcome: str, of: str, by: str) -> str:
    """The part of evaluations that had an outcome, by labels."""
    parts = [rate(EVALUATIONS, f'{RESULTS},outcome=~"{one}"', by) for one in (outcome, of)]
    return f"{parts[0]} / {parts[1]}"


ALL = "pass|fail|not_evaluable|error"
PASS_RATE = "Passed evaluations, of those that passed or failed"

# A row of the table is a panel: title, query, unit, sentence, legend.
# fmt: off
RESULT_ROWS = {
    "Results": (
        Panel("Failing rules", f"topk(20, {counted('fail', 'rule, service, agent')} > 0)", "short",
              "Fails in the shown time by rule, service and agent, most first. A rule's name opens its page.",
              kind="table", links_rule=True),
        Panel("Pass rate", f"{counted('pass', '')} / {counted('pass|fail', '')}", "percentunit",
              f"{PASS_RATE}, in the shown time.", kind="stat"),
        Panel("Fails", rate(EVALUATIONS, f'{RESULTS},outcome="fail"', "rule"), "ops",
              "Fails in a second by rule. The points are traces that did not pass.",
              "{{rule}}", exemplars=True, links_rule=True),
        Panel("Pass rate by rule", share("pass", "pass|fail", "rule"), "percentunit", f"{PASS_RATE}, by rule.",
              "{{rule}}", links_rule=True),
        Panel("Pass rate by agent", share("pass", "pass|fail", "agent"), "percentunit", f"{PASS_RATE}, by agent.",
              "{{agent}}"),
        Panel("Pass rate by service", share("pass", "pass|fail", "service"), "percentunit", f"{PASS_RATE}, by service.",
              "{{service}}"),
        Panel("Outcomes", rate(EVALUATIONS, RESULTS, "outcome"), "ops", "Evaluations in a second by outcome.",
              "{{outcome}}"),
        Panel("Not evaluable", share("not_evaluable", ALL, "rule"), "percentunit",
              "Evaluations for which the trace does not show enough, of all: neither passes nor fails.",
              "{{rule}}", links_rule=True),
        Panel("Errors", share("error", ALL, "rule"), "percentunit", "Evaluations that failed to judge, of all.",
              "{{rule}}", links_rule=True),
        Panel("Mean score",
              f"{rate('tracegrade_evaluation_score_sum', RESULTS, 'rule, evaluation')}"
              f" / {rate('tracegrade_evaluation_score_count', RESULTS, 'rule, evaluation')}",
              "percentunit", "Mean score of what was judged, by rule and evaluation.",
              "{{rule}} {{evaluation}}", links_rule=True),
    ),
    "Alerts and budgets": (
        Panel("Firing alerts", f"tracegrade_alerts_firing{{{RESULTS}}} > 0", "short",
              "Alerts of rule files that fire now.", kind="table", links_rule=True),
        Panel("Error budget left",
              f"min by (rule, service, agent, objective) (tracegrade_slo_budget_left{{{RESULTS}}})", "percentunit",
              "The part of each error budget that is left; below 0 more was spent.",
              "{{rule}} {{service}} {{agent}}", links_rule=True),
        Panel("Burn rate", f"max by (rule, service, agent, window) (tracegrade_slo_burn_rate{{{RESULTS}}})", "none",
              "How many times as fast as its objective allows a budget is spent, by window.",
              "{{rule}} {{service}} {{agent}} {{window}}", links_rule=True),
    ),
    "What was judged": (
        Panel("Decisions", rate("tracegrade_decisions_total", 'rule=~"$rule"', "kind"), "ops",
              "What became of each rule and each subject, in a second: evaluated, or why not.", "{{kind}}"),
        Panel("Revised outcomes", rate("tracegrade_revisions_total", 'rule=~"$rule"', "rule, from, to"), "ops",
              "Outcomes that late spans changed, in a second.", "{{rule}}: {{from}} to {{to}}",
              empty="no span is late"),
        Panel("Silent traces", rate("tracegrade_extract_silent_traces_total", SENT, "service, scope"), "ops",
              "Traces of models or agents in which no tool call was found, in a second.", "{{service}} {{scope}}",
              empty="each trace has a tool call"),
        Panel("Unread tool spans", rate("tracegrade_extract_unread_tool_spans_total", SENT, "service, scope"), "ops",
              "Spans that look like tool calls and that no dialect reads, in a second.", "{{service}} {{scope}}",
              empty="each tool span is read"),
    ),
}

HEALTH_ROWS = {
    "Is all well": (
        Panel("Instances", f"sum by (instance) (up{{{HEALTH}}})", "none",
              "1 where Prometheus reaches the metrics, else 0.", "{{instance}}", kind="stat"),
        Panel("Conditions", f"max by (instance, condition) (tracegrade_conditions{{{HEALTH}}}) > 0", "none",
              "What needs attention now; /healthz and doctor say what to do.", kind="table", empty="nothing is wrong"),
        Panel("Version", f"max by (instance, version, build) (tracegrade_build_info{{{HEALTH}}})", "none",
              "Which version runs where.", kind="table"),
        Panel("Rules in force", f"max by (instance) (tracegrade_rules_loaded{{{HEALTH}}})", "none",
              "How many rules judge.", "{{instance}}", kind="stat"),
    ),
    "Receiving": (
        Panel("Answers", rate("tracegrade_receiver_requests_total", HEALTH, "outcome"), "reqps",
              "Export requests answered in a second.", "{{outcome}}"),
        Panel("Refusals", rate("tracegrade_receiver_requests_total", f'{HEALTH},outcome="refused"', "reason"), "reqps",
              "Refused requests in a second, by reason.", "{{reason}}", empty="no request is refused"),
        Panel("Accepted", rate("tracegrade_receiver_accepted_items_total", HEALTH, "signal"), "ops",
              "Spans, log records and data points taken in a second.", "{{signal}}"),
        Panel("Over quota", rate("tracegrade_receiver_over_quota_total", HEALTH, "tenant, service, quota"), "reqps",
              "Requests that a quota refuses, in a second.", "{{tenant}} {{service}} {{quota}}",
              empty="no quota is set"),
    ),
    "Journal": (
        Panel("Journal size", f"sum by (instance, journal) (tracegrade_journal_size_bytes{{{HEALTH}}})", "bytes",
              "Journals on disk; journal.max_size_mib bounds each.", "{{instance}} {{journal}}"),
        Panel("Judge lag", f"max by (instance, judge) (tracegrade_judge_lag_bytes{{{HEALTH}}})", "bytes",
              "Journalled and not yet read by the judge.", "{{instance}} {{judge}}"),
        Panel("Lag in Kafka", f"max by (instance, partition) (tracegrade_kafka_lag_seconds{{{HEALTH}}})", "s",
              "Time since the message read last was written.", "{{instance}} {{partition}}",
              empty="the journal is local"),
        Panel("Commits", rate("tracegrade_journal_commits_total", HEALTH, "instance, journal"), "ops",
              "Group commits in a second, each one fdatasync.", "{{instance}} {{journal}}"),
        Panel("Failed commits", rate("tracegrade_journal_failed_commits_total", HEALTH, "instance, reason"), "ops",
              "Group commits that the disk refused, in a second.", "{{instance}} {{reason}}", empty="the disk works"),
        Panel("Free disk", f"min by (instance) (tracegrade_data_folder_free_bytes{{{HEALTH}}})", "bytes",
              "Free room on the disk of the data folder.", "{{instance}}"),
    ),
    "Judging": (
        Panel("Spans", rate("tracegrade_spans_total", HEALTH, "fate"), "ops",
              "Accepted spans by what became of them, in a second.", "{{fate}}"),
        Panel("Spans not judged", rate("tracegrade_spans_total", f'{HEALTH},fate=~"dropped|too_late"', "fate, reason"),
              "ops", "Spans that are forwarded and not judged, in a second, by reason.", "{{fate}} {{reason}}",
              empty="each span is judged"),
        Panel("Live traces", f"sum by (instance) (tracegrade_traces_open{{{HEALTH}}})", "none",
              "Traces that are still open in memory.", "{{instance}}"),
        Panel("Closed traces", rate("tracegrade_traces_closed_total", HEALTH, "close_reason"), "ops",
              "Closed traces in a second, by why they were closed.", "{{close_reason}}"),
        Panel("Judge restarts", rate("tracegrade_judge_restarts_total", HEALTH, "instance, reason"), "ops",
              "Restarts of the judge in a second.", "{{instance}} {{reason}}", empty="the judge runs on"),
    ),
    "Sending": (
        Panel("Queued requests", f"max by (instance, exporter) (tracegrade_exporter_queued_requests{{{HEALTH}}})",
              "none", "Requests accepted and not yet sent.", "{{instance}} {{exporter}}"),
        Panel("Sent requests", rate("tracegrade_exporter_sent_requests_total", HEALTH, "exporter, signal"), "reqps",
              "Requests delivered in a second.", "{{exporter}} {{signal}}"),
        Panel("Lost requests", rate("tracegrade_exporter_failed_requests_total", HEALTH, "exporter, reason"), "reqps",
              "Requests that an exporter gave up, in a second.", "{{exporter}} {{reason}}", empty="the peer takes all"),
        Panel("Stored traces", rate("tracegrade_sink_delivered_records_total", HEALTH, "sink"), "ops",
              "Judged traces delivered in a second.", "{{sink}}"),
        Panel("Dropped results", rate("tracegrade_sink_dropped_records_total", HEALTH, "sink, reason"), "ops",
              "Judged traces that a sink gave up, in a second.", "{{sink}} {{reason}}", empty="the store takes all"),
        Panel("Notifications", rate("tracegrade_alerts_notifications_total", HEALTH, "receiver, outcome"), "ops",
              "Notifications of alerts in a second.", "{{receiver}} {{outcome}}"),
    ),
    "Processes": (
        Panel("Processor", rate("tracegrade_process_cpu_seconds_total", HEALTH, "instance, process"), "none",
              "Cores in use, by process.", "{{instance}} {{process}}"),
        Panel("Memory", f"sum by (instance, process) (tracegrade_process_memory_bytes{{{HEALTH}}})", "bytes",
              "Resident memory, by process.", "{{instance}} {{process}}"),
        Panel("Open files", f"sum by (instance, process) (tracegrade_process_open_files{{{HEALTH}}})", "none",
              "Files and connections, by process.", "{{instance}} {{process}}"),
        Panel("Named series", f"max by (instance) (tracegrade_series{{{HEALTH}}})", "none",
              "Series that rules and senders name; telemetry.max_series bounds them.", "{{instance}}"),
    ),
}
# fmt: on
