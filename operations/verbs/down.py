"""`make down`: stop and remove what Tandem started. Images, models, secrets and the fabric stay."""

from pyinfra import host

from operations import tether, units
from operations.plan.places import UNITS

tether.quicken(host)
units.take_down(names=list(UNITS), name="Down | all units")
