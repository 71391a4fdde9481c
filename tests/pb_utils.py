"""What the adapter uses of triton_python_backend_utils, so that it can be tested without a server."""


class TritonModelException(Exception):  # noqa: N818  Triton's own name
    pass


class Tensor:
    def __init__(self, name, array):
        self._name, self._array = name, array

    def name(self):
        return self._name

    def as_numpy(self):
        if isinstance(self._array, Exception):
            raise self._array
        return self._array


class TritonError:
    UNKNOWN, INTERNAL, NOT_FOUND, INVALID_ARG, UNAVAILABLE, UNSUPPORTED, ALREADY_EXISTS, CANCELLED = range(8)

    def __init__(self, message, code=INTERNAL):
        self._message, self._code = message, code

    def message(self):
        return self._message

    def code(self):
        return self._code


class InferenceResponse:
    def __init__(self, output_tensors, error=None):
        self._tensors, self._error = output_tensors, error

    def output_tensors(self):
        return self._tensors

    def error(self):
        return self._error


class InferenceRequest:
    def __init__(self, inputs, wanted):
        self._inputs, self._wanted = [Tensor(name, array) for name, array in inputs.items()], set(wanted)

    def inputs(self):
        return self._inputs

    def requested_output_names(self):
        return self._wanted


class Logger:
    lines: list[str]

    def __init__(self):
        self.lines = []

    def _log(self, line):
        self.lines.append(line)

    log_info = log_warn = log_error = _log


class PbUtils:
    """One test's module: its own log."""

    TritonError, Tensor, InferenceResponse = TritonError, Tensor, InferenceResponse

    def __init__(self, model_dir=""):
        self.Logger = Logger()
        self._model_dir = str(model_dir)

    def get_model_dir(self):
        return self._model_dir


class ModelConfig:
    def __init__(self, content):
        self._content = content

    def as_dict(self):
        return self._content
