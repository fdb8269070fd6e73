"""What Tandem does to the nodes, in order: check everything, prepare, switch, prove.

    pyinfra inventory.py deploy.py --dry --diff    shows what would change
    pyinfra -y inventory.py deploy.py              makes it so; run it again, and nothing changes

Each step is called on every node, and decides itself whether it is for this one: pyinfra keeps two steps in order
only where one node has both.
"""

from functools import partial

from pyinfra import host

from bench.advise.against import against
from bench.advise.for_page import for_page
from operations import (
    engine,
    fabric,
    image,
    judging,
    lock,
    model,
    monitoring,
    preflight,
    prometheus,
    proxy,
    rollback,
    secrecy,
    tls,
    upkeep,
    verify,
    walls,
)

# Knobs, recipe, and a look at every node: whatever is wrong is said here, all at once, before the first change.
plan = preflight.settle(advice=against)
lock.hold(plan, name="Lock | one deploy at a time")

fabric.rails(plan, name="Fabric | addresses and MTU of both rails")
fabric.prove(plan, name="Fabric | full frames reach every node")

# Downloads and copies: the old topology still serves.
image.obtain(plan, "engine", name="Image | the engine's, on the head")
judging.understood(plan, name="Recipe | the image knows every word of it")
image.obtain(plan, "proxy", name="Image | the proxy's, on the head")
image.copy(plan, "engine", name="Image | the engine's, on the other nodes")
image.copy(plan, "proxy", name="Image | the proxy's, on the other nodes")
model.obtain(plan, name="Model | on the head")
model.copy(plan, name="Model | on the other nodes")

# The switch. A cluster's first rank goes first and comes last: the others have nothing to do without it.
engine.retire(plan, first=True, name="Engine | stop what is not the plan's, on the head")
engine.retire(plan, first=False, name="Engine | stop what is not the plan's, on the other nodes")
# What an engine listens on would be everybody's without them; those of a solo would cut an older cluster's rails.
walls.stand(plan, name="Walls | from outside the proxy's port answers, and nothing else of Tandem's")
secrecy.kept(plan, name="Secrets | whose they are, and who may read them")
engine.files(plan, name="Engine | files")
engine.ray_token(plan, name="Engine | Ray's token")
upkeep.files(plan, name="Upkeep | files")
upkeep.run(plan, name="Upkeep | memory guard and canary")
engine.start(plan, first=False, name="Engine | start on the other nodes")
started = engine.start(plan, first=True, name="Engine | start on the head")
proxy.keys(plan, name="Proxy | the same keys on all nodes")
tls.certificates(plan, name="Proxy | a certificate for each")
proxy.serve(plan, name="Proxy | start while the engines load", _if=partial(engine.all_are_new, plan))
# One at a time, so that the proxy always has a live engine.
for served, node in host.loop(plan.turns):
    engine.stand_in(plan, served, node, name=f"Engine | another one serves while {node}{served.suffix} is renewed")
    # The one that serves then may do so at another address than before.
    proxy.serve(plan, name="Engine | the proxies, before the next one stops", _if=engine.proxy_follows)
    engine.renew(plan, served, node, name=f"Engine | renew {node}{served.suffix}")
engine.ready(plan, name="Engine | a token from each")
# A cluster that was not started now has just proven itself: its token came out of all ranks.
verify.ray_nodes(plan, name="Verify | every node is in the Ray cluster", _if=started.did_change)

proxy.serve(plan, name="Proxy | run")
verify.proxy(plan, name="Verify | a token through the proxy")
rollback.remember(plan, name="Verify | this plan has served")
monitoring.export(plan, name="Monitoring | what each node says to Prometheus")
monitoring.show(plan, advice=for_page, name="Monitoring | the page behind each proxy")

# A model that serves is worth more than what watches it.
prometheus.watch(plan, name="Monitoring | Prometheus and Alertmanager, on the head", _ignore_errors=True)
