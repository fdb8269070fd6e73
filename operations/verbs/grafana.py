"""`tandem grafana`: a dashboard for whoever has a Grafana, of the same panels as Tandem's page. No node is asked."""

import json

from operations.plan.services.panels import dashboard

if __name__ == "__main__":
    print(json.dumps(dashboard(), indent=1, ensure_ascii=False))
