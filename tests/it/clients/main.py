# Uses the generated package: every module of it is loaded, then jobs are listed and submitted.
import importlib
import json
import os
import pkgutil
from uuid import uuid4

import box_client
from box_client import AuthenticatedClient
from box_client.api.jobs import get_job, list_jobs, submit_job
from box_client.api.workflows import list_workflows
from box_client.models import FlatError, JobStatus, JobView, NewJob, ProviderNode

for module in pkgutil.walk_packages(box_client.__path__, "box_client."):
    importlib.import_module(module.name)

client = AuthenticatedClient(base_url=os.environ["BOX"], token=os.environ["KEY"])
jobs = list_jobs.sync(client=client, status=JobStatus.SUCCEEDED, limit=10)
assert jobs.next_cursor is None
listed = [str(job.id) for job in jobs.items]

workflow = list_workflows.sync(client=client).items[0]
nodes = workflow.dag.nodes
assert isinstance(nodes[1], ProviderNode), nodes[1]
assert nodes[1].config.provider_id.version == 7

made = submit_job.sync(client=client, body=NewJob(url=os.environ["PAGE"], tags=["generated"]))
assert isinstance(made, JobView) and made.tags == ["generated"], made
missing = get_job.sync_detailed(client=client, id=uuid4())
assert isinstance(missing.parsed, FlatError), missing.parsed

print(json.dumps({
    "listed": listed,
    "status": jobs.items[0].status.value,
    "types": [node.type_.value for node in nodes],
    "submitted": str(made.id),
    "refused": missing.status_code.value,
}))
