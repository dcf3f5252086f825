"""From a request to records: plan, worker processes, runner, store."""
