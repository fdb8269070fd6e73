"""Download a revision with the Hub's own client: `download.py REPO REVISION [IGNORED ...]`, in the engine's container.

Resumes what broke off. Says in one line what went wrong, and ends with 1.
"""

import sys

from huggingface_hub import errors, snapshot_download


def main(repo: str, revision: str, *ignored: str) -> str:
    """Returns why it failed; empty: the revision is there."""
    try:
        snapshot_download(repo, revision=revision, ignore_patterns=list(ignored) or None)
    except errors.GatedRepoError:
        return f"{repo} is gated: accept its terms on the Hub, and put a token that may read it in `hub_token_file`"
    except errors.RevisionNotFoundError:
        return f"{repo} has no revision {revision}; correct `model.revision` in the recipe"
    except errors.RepositoryNotFoundError:
        return f"the Hub has no {repo}, or the token in `hub_token_file` may not see it"
    except errors.HfHubHTTPError as error:
        status = getattr(error.response, "status_code", "?")
        return f"the Hub answered {status} for {repo}: {error.server_message or error}; run the deploy again later"
    except (OSError, RuntimeError) as error:
        return f"{type(error).__name__}: {error}; what has arrived stays, the next run goes on from there"
    except Exception as error:
        return f"{type(error).__name__}: {error}; what has arrived stays, the next run goes on from there"
    return ""


if __name__ == "__main__":
    problem = main(*sys.argv[1:])
    if problem:
        sys.exit(" ".join(problem.split()))
