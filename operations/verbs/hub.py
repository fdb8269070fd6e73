"""What the Hub says of a repository, without its weights: files, configuration, the head of a GGUF file."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from huggingface_hub import HfApi, errors, hf_hub_url
from huggingface_hub.utils import build_hf_headers, get_session, hf_raise_for_status

from operations.node.model.gguf import Short
from operations.plan.config.refusal import Finding, Refusal
from operations.plan.fit import gguf
from operations.wire import Json

#: Bytes of a file that are read at most: an index of a thousand experts has some ten MB.
MOST = 64 * 2**20
#: Of a GGUF file at first; twice as many while its header goes on.
HEADER = 2**20
#: Seconds for an answer.
PATIENCE_S = 30
#: What its client raises: its own and the connection's, one that is told to stay offline, what is no answer of a Hub's.
_FAULTS = (errors.HTTPError, OSError, ValueError)
TOKEN = "accept its terms on the Hub, and log in here: `hf auth login`, or HF_TOKEN"


@dataclass(frozen=True)
class Repository:
    """A repository at a commit. `files`: bytes by name; `gated`: only for logins that have accepted its terms."""

    repo: str
    revision: str
    files: Mapping[str, int]
    gated: bool


@dataclass(frozen=True)
class Hub:
    """`endpoint`: the Hub or a mirror; empty: as HF_ENDPOINT says. `token_file`: one that is on this machine; else the
    token is this login's own (HF_TOKEN, `hf auth login`).
    """

    endpoint: str = ""
    token_file: str = ""

    def repository(self, repo: str, revision: str = "") -> Repository:
        """Its files. Raises Refusal where it can't be seen."""
        api = HfApi(endpoint=self.endpoint or None, token=self._token())
        try:
            said = api.model_info(repo, revision=revision or "main", files_metadata=True, timeout=PATIENCE_S)
        except _FAULTS as error:
            raise self._refused(repo, revision, error) from None
        files = {each.rfilename: each.size or 0 for each in said.siblings or ()}
        return Repository(repo, str(said.sha or revision), files, bool(said.gated))

    def json(self, of: Repository, name: str) -> Json:
        """A file of JSON. Raises Refusal where it is none."""
        data = self._read(of, name, MOST)
        try:
            found = json.loads(data)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise Refusal(Finding("fit", f"{name} of {of.repo} is no JSON", "name another revision: ORG/NAME@COMMIT"))
        return found

    def header(self, of: Repository, name: str) -> Json:
        """The metadata at the head of a GGUF file, read by range."""
        return read_header(lambda count: self._read(of, name, count), f"{name} of {of.repo}")

    def _read(self, of: Repository, name: str, count: int) -> bytes:
        """The first bytes of a file."""
        url = hf_hub_url(of.repo, name, revision=of.revision, endpoint=self.endpoint or None)
        headers = {**build_hf_headers(token=self._token()), "Range": f"bytes=0-{count - 1}"}
        found = bytearray()
        try:
            session = get_session()
            with session.stream("GET", url, headers=headers, timeout=PATIENCE_S, follow_redirects=True) as answer:
                # Where an error's words would be, nothing has been read yet.
                if answer.is_error:
                    answer.read()
                hf_raise_for_status(answer)
                # A mirror that knows no ranges sends all of it.
                for chunk in answer.iter_bytes():
                    found += chunk
                    if len(found) >= count:
                        break
        except _FAULTS as error:
            raise self._refused(of.repo, of.revision, error) from None
        return bytes(found[:count])

    def _token(self) -> str | None:
        if not self.token_file:
            return None
        try:
            return Path(self.token_file).read_text().strip() or None
        except FileNotFoundError:
            # The knob names a file on the head.
            return None
        except (OSError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", "") or "it is no text"
            raise Refusal(Finding("hub_token_file", f"{self.token_file} can't be read: {why}", TOKEN)) from None

    def _refused(self, repo: str, revision: str, error: Exception) -> Refusal:
        if isinstance(error, errors.GatedRepoError):
            return Refusal(Finding("fit", f"{repo} is gated", TOKEN))
        if isinstance(error, errors.RevisionNotFoundError):
            return Refusal(Finding("fit", f"{repo} has no revision {revision}", "name a commit: ORG/NAME@COMMIT"))
        if isinstance(error, errors.RepositoryNotFoundError):
            remedy = "is it written as on the Hub? A private one wants a token: `hf auth login`, or HF_TOKEN"
            return Refusal(Finding("fit", f"the Hub has no {repo}", remedy))
        if isinstance(error, errors.HfHubHTTPError):
            status = getattr(error.response, "status_code", 0)
            if status in (401, 403):
                return Refusal(Finding("fit", f"the Hub answered {status} for {repo}", TOKEN))
            return Refusal(Finding("fit", f"the Hub answered {status} for {repo}", "try again later"))
        if isinstance(error, errors.HFValidationError):
            return Refusal(Finding("fit", f"`{repo}` is no name of a repository", "write ORG/NAME as the Hub has it"))
        where = self.endpoint or HfApi().endpoint
        if isinstance(error, ValueError):
            # Not repeated: it may quote the token.
            problem = f"what {where} answers is no Hub's ({type(error).__name__})"
            return Refusal(Finding("fit", problem, "is a network's login page in the way, or the token none?"))
        problem = f"{where} can't be reached: {error or type(error).__name__}"
        return Refusal(Finding("fit", problem, "is the network there? The knob hub_endpoint names a mirror"))


def read_header(read: Callable[[int], bytes], what: str) -> Json:
    """Metadata of a GGUF file of which `read` gives the first so many bytes. Raises Refusal where it has no end."""
    count = HEADER
    while count <= MOST:
        data = read(count)
        try:
            return gguf.metadata(data)
        except Short:
            if len(data) < count:
                break
        count *= 2
    raise Refusal(Finding("fit", f"the header of {what} has no end", "fetch it anew, or name another build"))
