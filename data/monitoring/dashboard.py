#!/usr/bin/env python3
"""Makes gleaner-dashboard.json, the Grafana dashboard beside this file: python3 data/monitoring/dashboard.py"""
import json
import pathlib

SOURCE = {"type": "prometheus", "uid": "${source}"}
ROWS = [
    ("The box", [
        ("stat", "Takes writes", "none", [("min(gleaner_store_writer_up{instance=~\"$instance\"})", "writes")]),
        ("stat", "Self-test", "none", [("min(gleaner_self_test_passed{instance=~\"$instance\"})", "passed")]),
        ("stat", "Free disk", "bytes", [("min(gleaner_disk_free_bytes{instance=~\"$instance\"})", "free")]),
        ("stat", "Running since", "dateTimeFromNow", [("process_start_time_seconds{instance=~\"$instance\"} * 1000", "{{instance}}")]),
    ]),
    ("Requests", [
        ("timeseries", "Requests a second, by status", "reqps", [("sum by (status) (rate(gleaner_http_requests_total{instance=~\"$instance\"}[$__rate_interval]))", "{{status}}")]),
        ("timeseries", "Time of a request", "s", [
            ("histogram_quantile(0.5, sum by (le) (rate(gleaner_http_request_seconds_bucket{instance=~\"$instance\"}[$__rate_interval])))", "p50"),
            ("histogram_quantile(0.99, sum by (le) (rate(gleaner_http_request_seconds_bucket{instance=~\"$instance\"}[$__rate_interval])))", "p99")]),
        ("timeseries", "Routes that take the most time", "s", [("topk(8, sum by (method, route) (rate(gleaner_http_request_seconds_sum{instance=~\"$instance\"}[$__rate_interval])))", "{{method}} {{route}}")]),
        ("timeseries", "Connections and running requests", "short", [
            ("gleaner_http_connections{instance=~\"$instance\"}", "connections"),
            ("gleaner_http_requests_running{instance=~\"$instance\"}", "running"),
            ("gleaner_event_streams{instance=~\"$instance\"}", "event streams")]),
    ]),
    ("Work", [
        ("timeseries", "Jobs", "short", [
            ("gleaner_jobs_running{instance=~\"$instance\"}", "running"),
            ("gleaner_jobs_queued{instance=~\"$instance\"}", "queued")]),
        ("timeseries", "Slow requests and statements a minute", "short", [
            ("60 * rate(gleaner_slow_requests_total{instance=~\"$instance\"}[$__rate_interval])", "requests"),
            ("60 * rate(gleaner_slow_statements_total{instance=~\"$instance\"}[$__rate_interval])", "statements")]),
        ("timeseries", "Feeds behind", "s", [("gleaner_feed_lag_seconds{instance=~\"$instance\"}", "{{feed}}")]),
        ("timeseries", "Tasks that fail", "short", [("increase(gleaner_task_failures_total{instance=~\"$instance\"}[$__rate_interval]) > 0", "{{task}}")]),
        ("timeseries", "Schedules", "short", [
            ("gleaner_schedules_overdue{instance=~\"$instance\"}", "overdue"),
            ("rate(gleaner_schedule_runs_begun{instance=~\"$instance\"}[$__rate_interval])", "runs begun a second")]),
        ("timeseries", "Outputs, mail, storages", "short", [
            ("gleaner_output_turns{instance=~\"$instance\"}", "outputs being sent to"),
            ("gleaner_mail_waiting{instance=~\"$instance\"}", "messages waiting"),
            ("gleaner_storages_failing{instance=~\"$instance\"}", "storages failing")]),
    ]),
    ("Store and machine", [
        ("timeseries", "Commits and operations a second", "ops", [
            ("rate(gleaner_store_commits{instance=~\"$instance\"}[$__rate_interval])", "commits"),
            ("rate(gleaner_store_operations{instance=~\"$instance\"}[$__rate_interval])", "operations"),
            ("rate(gleaner_store_writes_refused{instance=~\"$instance\"}[$__rate_interval])", "refused")]),
        ("timeseries", "Memory", "bytes", [
            ("gleaner_process_own_memory_bytes{instance=~\"$instance\"}", "own"),
            ("process_resident_memory_bytes{instance=~\"$instance\", job=\"gleaner\"}", "resident")]),
        ("timeseries", "Disk", "bytes", [
            ("gleaner_disk_free_bytes{instance=~\"$instance\"}", "free"),
            ("gleaner_store_file_bytes{instance=~\"$instance\"}", "store")]),
        ("timeseries", "Descriptors and threads", "short", [
            ("process_open_fds{instance=~\"$instance\", job=\"gleaner\"}", "descriptors"),
            ("process_threads{instance=~\"$instance\", job=\"gleaner\"}", "threads")]),
    ]),
]


def dashboard():
    panels, y = [], 0
    for title, row in ROWS:
        panels.append({"id": len(panels) + 1, "type": "row", "title": title, "collapsed": False, "panels": [],
                       "gridPos": {"h": 1, "w": 24, "x": 0, "y": y}})
        y += 1
        width, height, x = (6, 4, 0) if row[0][0] == "stat" else (12, 8, 0)
        for kind, name, unit, queries in row:
            targets = [{"refId": chr(65 + n), "expr": expression, "legendFormat": legend, "datasource": SOURCE}
                       for n, (expression, legend) in enumerate(queries)]
            panels.append({"id": len(panels) + 1, "type": kind, "title": name, "datasource": SOURCE,
                           "gridPos": {"h": height, "w": width, "x": x, "y": y}, "targets": targets,
                           "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []}, "options": {}})
            x += width
            if x >= 24:
                x, y = 0, y + height
        y += height if x else 0
    return {
        "title": "Gleaner", "uid": "gleaner-box", "schemaVersion": 38, "tags": ["gleaner"], "editable": True,
        "time": {"from": "now-6h", "to": "now"}, "refresh": "30s", "timezone": "", "annotations": {"list": []},
        "templating": {"list": [
            {"name": "source", "label": "Data source", "type": "datasource", "query": "prometheus"},
            {"name": "instance", "label": "Box", "type": "query", "datasource": SOURCE, "includeAll": True, "multi": True,
             "refresh": 2, "query": {"query": "label_values(gleaner_build_info, instance)", "refId": "boxes"}},
        ]},
        "panels": panels,
    }


here = pathlib.Path(__file__).parent
(here / "gleaner-dashboard.json").write_text(json.dumps(dashboard(), indent=2) + "\n")
