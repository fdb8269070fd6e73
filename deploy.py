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
from operations.plan.services.contract import Start
from operations.runner.closing import greet, open_with, sum_up
from operations.runner.run import this_run
from operations.steps import (
    engine,
    fabric,
    firewall,
    image,
    kernels,
    lock,
    model,
    monitoring,
    preflight,
    prometheus,
    proxy,
    recipe,
    secret_files,
    tls,
    upkeep,
    verify,
)

#: All that stands between an engine's stop and its start: while it is done nobody may serve. Without the firewall what
#: an engine listens on would be everybody's; a solo's would cut an older cluster's rails.
BETWEEN = [(firewall.apply, "Firewall | from outside the proxy's port answers, and nothing else of Tandem's")]

# The same for all nodes: pyinfra reads this file once for each.
run = this_run()
# Knobs, recipe, and a look at every node: whatever is wrong is said here, all at once, before the first change.
preflight.settle(run, advice=against)
open_with(run)
lock.hold(run, name="Lock | one deploy at a time")

fabric.rails(run, name="Fabric | addresses and MTU of both rails")
firewall.let_in_rails(run, name="Firewall | let in what comes over the rails")
fabric.prove(run, name="Fabric | full frames reach every node")

# Downloads and copies: the old topology still serves.
image.obtain(run, "engine", name="Image | the engine's, on the head")
recipe.understood(run, name="Recipe | the image knows every word of it")
image.obtain(run, "proxy", name="Image | the proxy's, on the head")
image.copy(run, "engine", name="Image | the engine's, on the other nodes")
image.copy(run, "proxy", name="Image | the proxy's, on the other nodes")
image.sees_gpu(run, name="Image | the engine's sees the GPU")
model.obtain(run, name="Model | on the head")
model.copy(run, name="Model | on the other nodes")
kernels.hand_on(run, name="Kernels | to nodes that have none, from one that has compiled them")

# The switch. Whatever can be done while the old engine serves is done before it stops.
secret_files.fix_permissions(run, name="Secrets | whose they are, and who may read them")
engine.ray_token(run, name="Engine | Ray's token (only with Ray)")
upkeep.files(run, name="Upkeep | files")
upkeep.tune(run, name="Upkeep | the GPU's clock, swap, and what the kernel keeps free")
before = (Start.BEFORE_ENGINE, Start.BEFORE_PROXY)
upkeep.watch(run, *before, leaving=True, name="Upkeep | memory guard, canary, and the office's addresses")
engine.files(run, name="Engine | files")
engine.retire(run, name="Engine | stop what is not the plan's")
for stand, name in host.loop(BETWEEN):
    stand(run, name=name)
started = engine.start(run, name="Engine | start")
beside = (Start.BEFORE_ENGINE, Start.AFTER_ENGINE)
upkeep.watch(run, *beside, leaving=False, name="Upkeep | fallback, and nothing where no engine is")
proxy.keys(run, name="Proxy | the same keys on all nodes")
tls.certificates(run, name="Proxy | a certificate for each")
proxy.serve(run, name="Proxy | start while the engines load", _if=partial(engine.all_are_new, run))
# One at a time, so that the proxy always has a live engine.
for served, node in host.loop(run.plan.turns):
    engine.stand_in(run, served, node, name=f"Engine | another one serves while {node}{served.suffix} is renewed")
    # The one that serves then may do so at another address than before.
    proxy.serve(run, name="Engine | the proxies, before the next one stops", _if=partial(engine.proxy_follows, run))
    kernels.follow(run, served, node, name=f"Engine | kernels for {node}{served.suffix}")
    engine.renew(run, served, node, name=f"Engine | renew {node}{served.suffix}")
engine.ready(run, name="Engine | a token from each")
firewall.forget_former(run, name="Firewall | nothing under its former name")
proxy.serve(run, name="Proxy | run")
# The one before reads what it writes, at each of its starts.
upkeep.watch(
    run, Start.BEFORE_PROXY, leaving=False, name="Upkeep | nothing follows the office's addresses where no proxy does"
)
verify.proxy(run, name="Verify | a token through the proxy")
# A cluster that was not started now has just proven itself: its token came out of all ranks.
verify.ray_nodes(run, name="Verify | every node is in the Ray cluster (only with Ray)", _if=started.did_change)
greet(run, name="Verify | how it is used")
verify.remember(run, name="Verify | this plan has served")
kernels.listed(run, name="Kernels | of engines that serve, for other nodes")
verify.answers(run, name="Verify | what a new model answers")
verify.keep_answers(run, name="Verify | its answers go with the plan")
monitoring.export(run, name="Monitoring | what each node says to Prometheus")
monitoring.show(run, advice=for_page, name="Monitoring | the page behind each proxy")

# A model that serves is worth more than what watches it.
prometheus.watch(run, name="Monitoring | Prometheus and Alertmanager, on the head", _ignore_errors=True)

# Of a dry run: one line of what it comes to.
sum_up(run)
