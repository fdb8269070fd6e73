import os
from pathlib import Path

Path("/opt/level").write_text(os.environ["LEVEL"])
