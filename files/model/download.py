"""Download a revision with the Hub's own client: `download.py REPO REVISION FILES`, in a container.

FILES: `only`, patterns of the files that are wanted (none: all), and `without`, of those that are not; as JSON.

Prints what the Hub has, as JSON: name -> {size, blob}, `blob` being sha256 of a file in LFS, else git's hash of it.
Waits for a line on its standard input, for its caller looks first whether all of it fits. Then downloads, and resumes
what broke off. Says in one line what went wrong, and ends with 1.
"""

import json
import sys

from huggingface_hub import HfApi, errors, snapshot_download
from huggingface_hub.utils import filter_repo_objects


def main(repo: str, revision: str, files: str = "{}") -> str:
    """Returns why it failed; empty: the revision is there."""
    said = json.loads(files)
    only, without = said.get("only") or None, said.get("without") or None
    try:
        here = manifest(repo, revision, only, without)
        if not here:
            return f"{repo} has no file at {revision} that is named {' or '.join(only or ())}; correct `model.files`"
        print(json.dumps(here), flush=True)
        if not sys.stdin.readline():
            return "nobody waits for what would come"
        snapshot_download(repo, revision=revision, allow_patterns=only, ignore_patterns=without)
    except errors.GatedRepoError:
        return f"{repo} is gated: accept its terms on the Hub, and put a token that may read it in `hub_token_file`"
    except errors.RevisionNotFoundError:
        return f"{repo} has no revision {revision}; correct `model.revision` in the recipe"
    except errors.RepositoryNotFoundError:
        return f"the Hub has no {repo}, or the token in `hub_token_file` may not see it"
    except errors.HfHubHTTPError as error:
        status = getattr(error.response, "status_code", 0)
        if status in (401, 403):
            return f"the Hub answered {status} for {repo}: the token in `hub_token_file` may not read it, or is wrong"
        return f"the Hub answered {status} for {repo}: {error.server_message or error}; run the deploy again later"
    except Exception as error:
        return f"{type(error).__name__}: {error}; what has arrived stays, the next run goes on from there"
    return ""


def manifest(
    repo: str, revision: str, only: list[str] | None, without: list[str] | None
) -> dict[str, dict[str, object]]:
    """The files that will come."""
    siblings = HfApi().model_info(repo, revision=revision, files_metadata=True).siblings or []
    wanted = filter_repo_objects(
        siblings, allow_patterns=only, ignore_patterns=without, key=lambda each: each.rfilename
    )
    return {
        each.rfilename: {"size": each.size, "blob": each.lfs.sha256 if each.lfs else each.blob_id} for each in wanted
    }


if __name__ == "__main__":
    problem = main(*sys.argv[1:])
    if problem:
        sys.exit(" ".join(problem.split()))
