"""Kinds of findings about one node: its programs, disks, ports and files.

Where `seen` is `{problem}` the node words it: it alone knows what is in the way.
"""

from __future__ import annotations

from operations.plan.config.kind import Kind

NO_PYTHON = Kind("node-no-python", "has no python3", remedy="apt install python3")
SUDO_PASSWORD = Kind(
    "node-sudo-password",
    "sudo wants a password for this login",
    "a deploy asks for none, and most of what it does needs root; who has this login is root there from then on",
    'on {node}: echo "$USER ALL=(ALL) NOPASSWD:ALL" | sudo tee /etc/sudoers.d/tandem-$USER',
)
OTHER_MACHINE = Kind(
    "node-other-machine", "is {machine}, the head is {head}", remedy="one image can't serve both; leave one out"
)
BAD_KERNEL = Kind(
    "node-kernel",
    "runs the kernel {kernel}",
    "that kernel is known to fail with the ConnectX-7 or the GPU",
    "{remedy}",
    "boot the kernel that the line names; `uname -r` says which one runs",
)
DOCKER_SILENT = Kind(
    "docker-silent",
    "Docker does not answer",
    remedy="sudo systemctl enable --now docker (or install it: apt install docker.io docker-buildx)",
)
NO_RUNTIME = Kind(
    "docker-no-nvidia",
    "Docker has no NVIDIA runtime",
    "containers would not get the GPU",
    "install nvidia-container-toolkit, then: sudo nvidia-ctk runtime configure && sudo systemctl restart docker",
)
NO_BUILDX = Kind(
    "docker-no-buildx",
    "Docker has no buildx, and the recipe's image is built with it",
    remedy="sudo apt install docker-buildx",
)
NO_NFTABLES = Kind(
    "node-no-nftables",
    "nftables can't be set, and without it what the engine listens on is everybody's",
    remedy="sudo apt install nftables (where `sudo nft list tables` fails all the same, the kernel lacks nf_tables, "
    "or a container's newer nftables wrote a table that this one can't read: a reboot without it clears it)",
)
NO_OPENSSL = Kind("node-no-openssl", "tls={tls} needs openssl", remedy="sudo apt install openssl")
NO_DRIVER = Kind(
    "gpu-no-driver",
    "no NVIDIA driver is loaded, and this recipe needs a GPU",
    remedy="nvidia-smi must work; or choose another recipe",
)
DRIVER_FAILS = Kind(
    "gpu-driver-fails",
    "{problem}",
    "nvidia-smi hangs or fails, as after an update of the driver: no engine would start",
    "{remedy}",
    "reboot the node; if that does not help, `sudo nvidia-smi` there says what is wrong with the driver",
)
GPU_TAKEN = Kind(
    "gpu-taken",
    "{problem}",
    "another program computes on the GPU: no engine starts beside it, one that runs goes on",
    "{remedy}",
    "end that program: `sudo kill` with its number; `nvidia-smi` lists what computes there",
)
SECRETS_OPEN = Kind(
    "secret-files-open",
    "{problem}",
    "others than root could read Tandem's secrets, or put their own files in their place",
    "{remedy}",
    "give the named folder to root, with nobody else writing (`sudo chown root:`, `sudo chmod go-w`); where it is a "
    "link, put the folder itself there",
)
TOKEN_OPEN = Kind(
    "secret-token-file",
    "{problem}",
    "the file of the Hub's token is not there, or others could read or replace it",
    "create it with the token alone in it, the login's or root's as its folder is, and `chmod 600` it; or clear "
    "hub_token_file",
)
NO_ROOM = Kind(
    "disk-no-room",
    "{path} has {free_gib:.1f} GiB free, {need_gib:g} GiB are needed",
    "what is still to come of models, images and metrics does not fit",
    "make room: `tandem models prune` and `tandem prune` remove what nothing needs{more}",
)
READ_ONLY = Kind(
    "disk-read-only",
    "the file system of {path} is read-only",
    "the kernel takes no more writes to it since it has met errors, or somebody has mounted it so: nothing can be "
    "deployed there, and an engine that ends does not start again",
    "`sudo dmesg | grep -iE 'ext4|nvme|I/O error'` says why; save what is dear, and reboot, which checks it. Mounted "
    "so by hand: `findmnt -T {path}` names the TARGET of `sudo mount -o remount,rw TARGET`",
)
STORE_SHUT = Kind(
    "disk-store-not-the-login-s",
    "{place} is not the login's, so it can't make the model store {store} there",
    "models would have no place to come to",
    "{remedy}",
    'give it to the login: sudo chown "$USER": {place}',
)
PORT_HELD = Kind(
    "port-held",
    "port {port} is held by {holder}",
    "what wants it waits and never serves",
    "end it, or change `{knob}` in group_data/all.py",
)
SOURCE_NOT_WHOLE = Kind(
    "source-model-not-whole",
    "{problem}",
    "the folder that model_from names does not have the whole model",
    "put the whole model there, or set model_from=hub",
)
ARCHIVE_UNFIT = Kind(
    "source-archive-unfit",
    "{problem}",
    "the archive is not there, or has another image than the plan's",
    "make it again with `docker save`, or change engine_image_from / proxy_image_from",
)
GPU_UNSEEN = Kind(
    "gpu-unseen-in-container",
    "{problem}",
    "a container of the engine's image does not find the GPU: an engine would not start, or compute on the CPU",
    "{remedy}",
    "on the node: sudo apt install nvidia-container-toolkit && sudo nvidia-ctk runtime configure && "
    "sudo systemctl restart docker",
)
FOREIGN_FILES = Kind(
    "disk-foreign-files",
    "{place} is not its login's; Tandem can write there, `hf download` can't",
    remedy='sudo chown -R "$USER": {place}',
)
CDI_FREEZES = Kind(
    "docker-cdi-freezes",
    "with CDI and NVIDIA's toolkit 1.19.1 a Spark froze under heavy loads, with 1.19.0 and without CDI it did not "
    "(nvidia-container-toolkit issue 1910; which of both it was is not known)",
    remedy="where it freezes, take the toolkit 1.19.0, or go without CDI",
)
PROXY_SHUT = Kind(
    "firewall-shuts-proxy",
    "{by} does not let {peer} in to the proxy's port {port} over {device}, nor other clients that no rule of yours "
    "names",
    "apps there get no answer, though the service runs",
    "{remedy}",
    "let the port in by a rule of that firewall, such as `sudo ufw allow {port}/tcp`",
)
NO_CGROUPS = Kind(
    "node-no-cgroup-rules",
    "its kernel or its control groups (cgroup v2 is needed) don't let Tandem's firewall know an engine's sockets: "
    "ports that a rank opens by itself can be reached from every network of the node",
    remedy="boot it with cgroup v2: `stat -fc %T /sys/fs/cgroup` says cgroup2fs then",
)
