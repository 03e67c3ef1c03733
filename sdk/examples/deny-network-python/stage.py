"""The module's exports: JSON in, a verdict out."""

import json

import policy
from componentize_py_types import Err
from wit_world import exports
from wit_world.exports.admit import Verdict, Verdict_Allow
from wit_world.exports.settings import Problem
from wit_world.imports.types import Call, Error_Denied, Error_InvalidConfig


class Admit(exports.Admit):
    """Asked for every attachment of a pod before the first one is made."""

    def admit(self, call: Call, config: str) -> Verdict:
        own = json.loads(call.config)
        wrong = policy.problems(own)
        if wrong:
            raise Err(Error_InvalidConfig("; ".join(f"{path} {message}" for path, message in wrong)))
        reason = policy.denial(own, call.network, json.loads(call.context))
        if reason is not None:
            raise Err(Error_Denied(reason))
        return Verdict_Allow()


class Settings(exports.Settings):
    """Asked by `catenactl check`, so that a wrong config is found before a pod comes."""

    def validate(self, config: str) -> None:
        wrong = policy.problems(json.loads(config))
        if wrong:
            raise Err([Problem(path=path, message=message) for path, message in wrong])
