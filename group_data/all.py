"""The knobs: what is wanted. Edit here, or for one run: `pyinfra inventory.py deploy.py --data topology=solo`."""

# Everything that Tandem does on a node needs root; the login needs sudo without a password.
_sudo = True

# --- What is served ----------------------------------------------------------------------------------------------

# A name in files/recipes (`make recipes` lists them), or the path of a recipe: Tandem's, eugr's or sparkrun's.
# This one: the newest release that public runs on a GB10 prove ([N] in docs/sources.md), kernels chosen by vLLM.
recipe = "nemotron-3-super-nvfp4-auto"

# How engines lie on nodes.
#   solo      one engine, on the head
#   cluster   one engine across all nodes, each of which has a part of the model: the fastest answer to one user
#   replicas  one engine on each node, or group of nodes (`nodes_per_replica`), behind the proxy: the most answers a
#             second, and one node may fail
topology = "cluster"

# What joins the ranks of a cluster.
#   mp   the engine's own launcher, without Ray; SGLang takes no other
#   ray  a Ray head and workers; the image must have Ray in it (vLLM's own has it up to 0.17)
executor = "mp"

# Several models, by names of your own; none: the one that `recipe`, `topology` and `executor` declare. Each has a
# recipe, and what it does not say is as it is said in this file.
#   recipe, topology, executor, pipeline_parallel, nodes_per_replica, canary_deadline, engine_image_from, model_from,
#   model_revision, model_revisions
#   nodes         those that it lies on, its first rank's first; without it solo lies on the head, all else on all nodes
#   memory_gib    what it may have of each of these nodes; models of one node that do not fit together are refused
#   served_name   what clients call it, in place of the recipe's name
# The first ones are worth the most: where memory runs out the last one of a node is killed first. For one run:
# `--data models.coder.topology=cluster`. More in docs/models.md.
#   models = {
#       "chat": {"recipe": "nemotron-3-super-nvfp4-auto", "topology": "cluster", "nodes": ["spark-1", "spark-2"]},
#       "coder": {"recipe": "qwen3.6-35b-a3b-nvfp4", "topology": "replicas", "nodes": ["spark-3", "spark-4"]},
#   }
models = {}

# Into how many stages the layers of a cluster's model are put, one behind the other.
#   1   one: every node has a share of every layer (tensor-parallel over all nodes)
#   N   so many: the nodes of a stage share its layers, and hand on what comes out to the next stage's
# Each stage has as many nodes, neighbours in the inventory: 2 on four nodes are two stages of two nodes. A model whose
# attention heads the number of nodes does not divide needs a stage for each node: 3 on three nodes.
pipeline_parallel = 1

# Of how many nodes each engine of `replicas` is made.
#   1   one: an engine on each node
#   N   so many: each group of N neighbours in the inventory is a cluster by itself, with `executor` and, of its own N
#       nodes, `pipeline_parallel`; 2 on four nodes are two pairs. The first node of a group answers for it
nodes_per_replica = 1

# How the proxy chooses among engines.
#   balanced        the one with the fewest requests under way; a conversation goes where its beginning is cached, as
#                   long as reading it anew would take longer than to wait behind the others there
#   simple-shuffle  at random
#   least-busy      accepted with a warning: LiteLLM chooses before it counts, so a burst goes to one engine
routing = "balanced"

# --- Where it listens --------------------------------------------------------------------------------------------

# The address of the proxy on each node that serves: loopback | management (those of the interface that ssh uses, IPv4
# where it has one, whatever they are tomorrow) | all (of IPv4) | an IPv4 address of the head (the other nodes' stay on
# loopback then).
proxy_bind = "loopback"
# 1024 or higher: those below are root's, and the proxy runs without it.
proxy_port = 8000

# An address of the office network that nobody has: it moves to another node that serves when its own one, or that one's
# proxy, is gone. VRRP (keepalived) needs an id of its own on that network, 1 to 255; 0: the address' last byte.
proxy_address = ""
proxy_vrid = 0

# TLS before the proxies: off; self: the head makes an authority once, which clients have to know (`make endpoint` says
# how); files:CERT,KEY: your own, two files in PEM on the machine that deploys (docs/tls.md).
tls = "off"

# MiB that the body of a request may have: pictures are in it as text.
proxy_body_mib = 64

# Requests at once through a node's proxy, of all keys together (1 to 1500); one more is told to come back (429). What
# one key may have at once is said when it is made: `make key NAME=alice REQUESTS=4`.
proxy_requests = 1000

# Two LiteLLM behind each proxy, and where the proxy is asked whether it runs: five ports on loopback, from here.
litellm_ports = 8010

# The engines, on the fabric (on loopback in solo, and on the head in replicas). Nobody but the proxy asks them.
engine_port = 8001

# The ranks' own ports on the fabric: 300, from here. Ray, its workers, the meeting of the ranks, copies.
cluster_ports = 26000

# --- The fabric --------------------------------------------------------------------------------------------------

# Solo has no fabric, and leaves the network as it is.
# A subnet for each rail, two different ones. The head gets .11, the next node .12, and so on.
# The interfaces are found on each node; `fabric_interfaces` in the inventory overrides that. Of three nodes in a ring,
# which is found too, each cable has a quarter of each of them (docs/network.md): a /26 or wider then.
fabric_subnets = "192.168.177.0/24,192.168.178.0/24"

# 9000 wants a link (and a switch, if there is one) that carries it; the deploy proves that it does.
fabric_mtu = 9000

# --- Where images and models come from ----------------------------------------------------------------------------

# The head gets an image, the other nodes get it from the head over the fabric.
#   registry              what the recipe says: pulled by its name, or built where the recipe names a build
#   archive:/PATH.tar     what `docker save` wrote, on the head
#   build:files/images/X  built on the head from a folder of this repository
engine_image_from = "registry"
proxy_image_from = "build:files/images/proxy"

# The proxy image's name in a registry or an archive; a built one needs none.
proxy_image = "tandem-proxy"

# hub, or a folder on the head: an HF cache (with models--ORG--NAME in it), or the model's own files.
model_from = "hub"

# A commit of the model's repository, for a recipe that names none (eugr's and most of sparkrun's). Of several models
# each says its own, in `models`.
model_revision = ""

# The same for what a recipe needs beside its model (a draft, an adapter, a tokenizer): {"ORG/NAME": "commit"}.
model_revisions = {}

# The HF cache on every node; what is in it already is used. ~ is the login's home.
model_store = "~/.cache/huggingface/hub"

# Another Hub, or a mirror of it; and a file on the head (mode 0600) with the token for gated models.
hub_endpoint = "https://huggingface.co"
hub_token_file = ""

# --- How it stays up ----------------------------------------------------------------------------------------------

# Seconds for one token. Three times as long without a token or any other sign of work, and the engine is started anew.
# An engine that stays idle is asked for a token once in two of them. It may be silent for longer where its recipe has
# it compute for longer without a word, at 500 tokens a second: a step of max-num-batched-tokens, or a whole prompt of
# max-model-len where its statistics or chunked prefill are off.
canary_deadline = 30.0

# GiB of available memory below which the engine is killed: with nothing left, unified memory freezes the whole node.
memory_floor_gib = 4.0

# A cluster that lacks a node serves nothing until it is back.
#   off    it waits
#   solo   when a rank has been missing for fallback_after seconds (30 at least), one node that is left serves alone,
#          at the same address, under the same name; the recipe must run in solo, and fit into one node
# A reboot takes a Spark two to four minutes, and each way costs a load of the model: 300 waits for a reboot.
fallback = "off"
fallback_after = 300.0

# Back to the cluster, when all nodes are back.
#   auto     by itself, as soon as no request is under way
#   deploy   with the next `make apply`
fallback_returns = "auto"

# When a new plan does not come up.
#   offer  the deploy says why, and that `make rollback` goes back to the plan that served last
#   auto   it goes back by itself, and still ends as a failure
rollback = "offer"

# Metrics and alarms (docs/monitoring.md).
#   off         nothing of this
#   metrics     each node says how it is in Prometheus' format, on the fabric (on loopback in solo)
#   prometheus  the same, and the head keeps it (on the fabric, too) and raises alarms (on loopback): Prometheus and
#               Alertmanager, of its distribution's packages
# With each of them every proxy has a page that says how the nodes are, at /tandem/ (docs/page.md).
monitoring = "off"
monitoring_port = 8020
page_port = 8023
prometheus_port = 8021
alertmanager_port = 8022

# What Prometheus keeps on the head: so many days, in so many GiB of /var/lib at most, whichever comes first.
monitoring_days = 30
monitoring_gib = 4

# Where alarms are sent; all of them get each. Secrets are in files of mode 600 on the machine that deploys.
#   {"webhook": "https://chat.example.org/hook", "token_file": "~/hook.token"}
#   {"ntfy": "https://ntfy.example.org/topic", "token_file": "~/ntfy.token"}
#   {"email": "you@example.org", "from": "spark@example.org", "smtp": "mail.example.org:587",
#    "user": "spark@example.org", "password_file": "~/smtp.password"}
# A token is for whoever wants one, a user and a password too; `"plain": True` sends mail without TLS.
alarms = []

# --- What is accepted ---------------------------------------------------------------------------------------------

# Critical known holes that this deployment can be reached by and that you live with, by name: ["CVE-2026-12345"].
# `make audit-security` lists them; without your word a deploy refuses them.
accept_risk = []
