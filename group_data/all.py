"""The knobs: what is wanted. A line without `#` is set, all others show their defaults.

Set one by removing its `#`, or for one run: `pyinfra inventory.py deploy.py --data topology=solo`.
Made of operations/plan/config/knob_fields.py by `make manual-pages`.
"""

# Everything that Tandem does on a node needs root; the login needs sudo without a password.
_sudo = True

# --- What is served -------------------------------------------------------------------------------------------------

# A name in files/recipes (`tandem recipes` lists them), or the path of a recipe: Tandem's, eugr's or sparkrun's.
# The default is the newest release that public runs on a GB10 prove ([N] in docs/sources.md). It takes four requests
# at once, and more wait for their turn.
recipe = "nemotron-3-super-nvfp4-auto"

# How engines lie on nodes.
#   solo      one engine, on the head
#   cluster   one engine over all nodes, each of which has a part of the model: the fastest answer to one user
#   replicas  one engine on each node, or group of nodes (`nodes_per_replica`), behind the proxy: the most answers a
#             second, and one node may fail
topology = "cluster"

# What joins the ranks of a cluster.
#   mp   the engine's own launcher, without Ray; SGLang takes no other
#   ray  a Ray head and workers; the image must have Ray in it (vLLM's own has it up to 0.17)
executor = "mp"

# Several models, by names of your own. Without any, `recipe`, `topology` and `executor` declare the one model.
# Each needs a recipe. It may have values of its own for `topology`, `executor`, `pipeline_parallel`,
# `nodes_per_replica`, `canary_deadline`, `loader`, `engine_image_from`, `model_from`, `model_revision` and
# `model_revisions`; for all else the general knobs count. Five words are of a model alone.
#   nodes         those that it lies on, its first rank's first; without it solo has the head, all else all nodes
#   memory_gib    what it may have of each of these nodes; models of one node that do not fit together are refused
#   served_name   what clients call it, in place of the recipe's name
#   on_demand     True: it is loaded when a client asks for it, and gives its memory back (docs/on-demand.md); in solo
#                 alone. Each has to fit beside the models that stay loaded, not beside the others on demand
#   idle_minutes  minutes without a request after which it is unloaded: 2 at the least, 30 where it is not said
# The first models are worth the most: when memory runs out, the guard ends the last model of that node. For one run:
# `--data models.coder.topology=cluster`. More in docs/models.md.
#
#     models = {
#         "chat": {"recipe": "nemotron-3-super-nvfp4-auto", "topology": "cluster", "nodes": ["spark-1", "spark-2"]},
#         "coder": {"recipe": "qwen3.6-35b-a3b-nvfp4", "topology": "replicas", "nodes": ["spark-3", "spark-4"]},
#     }
# models = {}

# Into how many stages the layers of a cluster's model are put, one behind the other.
#   1  one: every node has a share of every layer (tensor-parallel over all nodes)
#   N  so many: the nodes of a stage share its layers, and hand on what comes out to the next stage's
# Each stage has as many nodes, neighbours in the inventory: 2 on four nodes are two stages of two nodes. Where the
# number of nodes does not divide a model's attention heads, each node needs a stage: 3 on three nodes.
# pipeline_parallel = 1

# How many nodes each engine of `replicas` has.
#   1  one: an engine on each node
#   N  so many: each group of N neighbours in the inventory is a cluster with `executor` and `pipeline_parallel`
# 2 on four nodes are two pairs. The first node of a group answers for it.
# nodes_per_replica = 1

# How the proxy chooses among engines (docs/routing.md).
#   balanced        the one with the fewest requests under way; a conversation goes where its beginning is cached, as
#                   long as reading it anew would take longer than to wait behind the others there
#   simple-shuffle  at random
#   least-busy      accepted with a warning: LiteLLM chooses before it counts, so a burst goes to one engine
# routing = "balanced"

# --- Where it listens -----------------------------------------------------------------------------------------------

# Where each node's proxy listens.
#   loopback    on the node itself alone
#   management  the interface that ssh uses, IPv4 where it has one, whatever its address is tomorrow: your network
#               reaches it
#   all         all IPv4 addresses
#   ADDRESS     an IPv4 address of the head; the other nodes' proxies stay on loopback then
proxy_bind = "loopback"

# The proxies' port: those below are root's, and the proxy runs without it.
# proxy_port = 8000

# An IPv4 address of the office network that nobody has. It moves to another node that serves when its own one, or
# that one's proxy, is gone.
# proxy_address = ""

# The id of `proxy_address` in VRRP (keepalived), which nobody else on that network has: 1 to 255, or 0 for the
# address' last byte.
# proxy_vrid = 0

# TLS before the proxies (docs/tls.md).
#   off             none
#   self            the head makes an authority once, which clients have to know (`tandem endpoint` says how)
#   files:CERT,KEY  your own: two files in PEM on the machine that deploys
# tls = "off"

# MiB that the body of a request may have: pictures are in it as text.
# proxy_body_mib = 64

# Requests at once through a node's proxy, of all keys together; one more is told to come back (429). What one key
# may have at once is said when it is made: `tandem key alice --requests 4`.
# proxy_requests = 1000

# Hosts from which engines may fetch pictures and sound that a request names by URL: ["images.example.org"]. An
# engine has its node's network, so a client could have it ask anything there. Data URLs need no host.
# media_domains = []

# The engines' port, on the fabric (on loopback in solo, and on the head in replicas). Only proxies ask there.
# engine_port = 8001

# The first of 300 ports on the fabric for the ranks: Ray, its workers, the meeting of the ranks, copies.
# cluster_ports = 26000

# --- The fabric -----------------------------------------------------------------------------------------------------

# A subnet for each rail, two different ones. The head gets .11, the next node .12, and so on. Solo has no fabric,
# and leaves the network as it is.
# The interfaces are found on each node; `fabric_interfaces` in the inventory overrides that. Three nodes in a ring
# are found too: each of their cables has a quarter of each subnet, so both are a /26 or wider (docs/network.md).
# fabric_subnets = "192.168.177.0/24,192.168.178.0/24"

# 9000 wants a link (and a switch, if there is one) that carries it; the deploy proves that it does.
# fabric_mtu = 9000

# How an engine reads the weights of its model (docs/starts.md). A recipe that says it by flags has the last word.
#   engine           its own way: on a GB10 it reads mapped pages, slowly
#   auto             on one node the first of instanttensor and fastsafetensors that the image has, and that nobody
#                    has seen to fail with this model and release; engine where a start fails in it, in a cluster, and
#                    where the recipe does not say weights_gib of each of its models
#   fastsafetensors  vLLM: read as fast as the disk, file by file; the image must have it
#   instanttensor    vLLM 0.19 or newer: the same, past the page cache; the image must have it
#   runai_streamer   vLLM: the same, by threads; the image must have it
#   eager            vLLM, SGLang: each file is read whole before it is used, which takes its size of memory more
#   prefetch         vLLM 0.19 or newer, SGLang: files are read into the page cache beside the load
# loader = "engine"

# --- Where images and models come from ------------------------------------------------------------------------------

# Where the head gets the engine's image. The other nodes get it from the head over the fabric.
#   registry              what the recipe says: pulled by its name, or built where the recipe names a build
#   archive:/PATH.tar     what `docker save` wrote, on the head
#   build:files/images/X  built on the head from a folder of this repository
# engine_image_from = "registry"

# Where the head gets the proxy's image, with the same choices as `engine_image_from`.
# proxy_image_from = "build:files/images/proxy"

# The proxy image's name in a registry or an archive; a built one needs none.
# proxy_image = "tandem-proxy"

# hub, or a folder on the head: an HF cache (with models--ORG--NAME in it), or the model's own files.
# model_from = "hub"

# A commit of the model's repository, for a recipe that names none (eugr's and most of sparkrun's). Several models
# each say their own, in `models`.
# model_revision = ""

# The same for what a recipe needs beside its model (a draft, an adapter, a tokenizer): {"ORG/NAME": "commit"}.
# model_revisions = {}

# The HF cache on every node; what is in it already is used. ~ is the login's home.
# model_store = "~/.cache/huggingface/hub"

# The Hub, another one, or a mirror of it.
# hub_endpoint = "https://huggingface.co"

# A file on the head (mode 0600) with the Hub's token alone in it, for gated models.
# hub_token_file = ""

# --- How it stays up ------------------------------------------------------------------------------------------------

# Seconds for one token. Three times as long without a token or any other sign of work, and the engine is started
# anew. An engine that stays idle is asked for a token once in two of them.
# Where a recipe computes for longer without a word, the engine may be silent for longer. That is a step of
# max-num-batched-tokens, or a whole prompt of max-model-len where statistics or chunked prefill are off, each at 500
# tokens a second.
# canary_deadline = 30.0

# GiB of available memory below which the engine is killed: with nothing left, unified memory freezes the node.
# memory_floor_gib = 4.0

# MHz that the GPU's clock may have at most, over boots; 0: as it is. Owners of Sparks that go off under load or
# run hot cap it at 2000 to 2200: ten degrees less at hardly any cost ([L] and [Z] in docs/sources.md).
# gpu_clock_mhz = 0

# Swap of the nodes that serve.
#   keep  as it is
#   off   none, over boots: on unified memory a GPU that runs out makes the node swap until it freezes ([Z])
# swap = "keep"

# What the kernel keeps free for itself (vm.min_free_kbytes, 65536 to 8388608), over boots; 0: as it is. More lets
# the driver find memory where it is short. An engine's start misses 1.5 times as much ([Y]): think of 1048576, and
# not of more.
# min_free_kbytes = 0

# What a cluster does that lacks a node (docs/fallback.md). It serves nothing until the node is back.
#   off   it waits
#   solo  after `fallback_after` seconds one node that is left serves alone, at the same address, under the same name;
#         the recipe must run in solo, and fit into one node
# fallback = "off"

# Seconds that a rank has to be missing before a node serves alone. A reboot takes a Spark two to four minutes, and
# each way costs a load of the model: 300 waits for a reboot.
# fallback_after = 300.0

# When one node that serves alone gives way to the cluster, once all nodes are back.
#   auto    by itself, as soon as no request is under way
#   deploy  with the next `tandem apply`
# fallback_returns = "auto"

# When a new plan does not come up.
#   offer  the deploy says why, and that `tandem rollback` goes back to the plan that served last
#   auto   it goes back by itself, and still ends as a failure
# rollback = "offer"

# Questions whose answers are checked, at the end of a deploy (docs/prove.md).
#   new  of each model that has not been asked before as it is; `tandem prove` asks at any time
#   off  none: the end of a deploy does not wait for answers
# prove = "new"

# Metrics and alarms (docs/monitoring.md).
#   off         nothing of this
#   metrics     each node says how it is in Prometheus' format, on the fabric (on loopback in solo)
#   prometheus  the same, and the head keeps it (on the fabric, too) and raises alarms (on loopback): Prometheus and
#               Alertmanager, of its distribution's packages
# With `metrics` and `prometheus` every proxy has a page that says how the nodes are, at /tandem/ (docs/page.md).
# monitoring = "off"

# Where each node says how it is.
# monitoring_port = 8020

# Where Prometheus listens, on the head.
# prometheus_port = 8021

# Where Alertmanager listens, on the head's loopback.
# alertmanager_port = 8022

# Days that Prometheus keeps what the nodes have said, or fewer where `monitoring_gib` is full before.
# monitoring_days = 30

# GiB of /var/lib on the head that Prometheus may fill.
# monitoring_gib = 4

# Where alarms are sent; all of them get each. Secrets are in files of mode 600 on the machine that deploys. A
# token is for a receiver that wants one, a user and a password too; `"plain": True` sends mail without TLS.
#
#     alarms = [
#         {"webhook": "https://chat.example.org/hook", "token_file": "~/hook.token"},
#         {"ntfy": "https://ntfy.example.org/topic", "token_file": "~/ntfy.token"},
#         {"email": "you@example.org", "from": "spark@example.org", "smtp": "mail.example.org:587",
#          "user": "spark@example.org", "password_file": "~/smtp.password"},
#     ]
# alarms = []

# --- What is accepted -----------------------------------------------------------------------------------------------

# Critical known holes that this deployment can be reached by and that you live with, by name: ["CVE-2026-12345"].
# `tandem audit-security` lists them; without your word a deploy refuses them.
# accept_risk = []
