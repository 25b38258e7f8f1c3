"""Plain data written as JSON, or pickled, and read again, in a frame."""

import json
import pickle

from conformance.program import Args, Case, program
from conformance.sample import vector


@program
def data_written():
    data = {"a": [1, 2.5, None, True], "b": {"c": "é\n"}, "d": (1,)}

    def f(x):
        text = json.dumps(data, sort_keys=True)
        return x * len(text), text, json.dumps(data, separators=(",", ":"), ensure_ascii=False)

    return Case(f, vector(), observe=data, then=[lambda: data.update(e=3), lambda: data["a"].append(1e300)])


@program
def data_read():
    def f(x, text):
        data = json.loads(text)
        return x * data["a"][1], data

    then = [lambda: Args(vector(), '{"a": [0, 4], "b": null}'), lambda: Args(vector(), ' {"a": [1, NaN]} ')]
    return Case(f, vector(), '{"a": [1, 2.5]}', then=then)


@program
def text_that_is_no_json():
    def f(x):
        try:
            return json.loads("[1, ")
        except json.JSONDecodeError as error:
            return x + 1, str(error), error.pos

    return Case(f, vector())


@program
def pickled_when_empty():
    """As keys of caches are made of keyword arguments."""

    def f(x, **settings):
        return x + 1, pickle.dumps(settings), pickle.loads is not None

    return Case(f, vector(), then=[lambda: Args(vector())])


@program(whole=False)
def data_that_is_not_plain():
    def f(x):
        texts = []
        for data in ([x], {1, 2}, {(1, 2): 3}, float("nan")):
            try:
                texts.append(json.dumps(data, allow_nan=False))
            except (TypeError, ValueError) as error:
                texts.append(type(error).__name__)
        return x + 1, texts

    return Case(f, vector())


@program(whole=False)
def encoder_of_the_program():
    class Sizes(json.JSONEncoder):
        def default(self, o):
            return list(o.shape)

    def f(x):
        return x * 2, json.dumps({"x": x}, cls=Sizes), json.dumps([1, {"b": 2}], indent=1)

    return Case(f, vector())


@program(whole=False)
def hook_of_the_program():
    seen = []

    def hook(pairs):
        seen.append(len(pairs))
        return dict(pairs)

    def f(x):
        return x + 1, json.loads('{"a": {"b": 1}}', object_pairs_hook=hook), json.loads("1.50", parse_float=str)

    return Case(f, vector(), observe=seen, then=[lambda: None])
