"""Estimators of scikit-learn's kind: for pipelines, grid searches and everything else that takes one.

    from shoal.sklearn import MLPClassifier
    make_pipeline(StandardScaler(), MLPClassifier((64,))).fit(x, y)
"""
from __future__ import annotations

from typing import Any, Optional, Sequence, Union

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets, unique_labels
from sklearn.utils.validation import check_is_fitted

from . import layers
from .arrays import Array
from .callbacks import EarlyStopping
from .models import Sequential
from .optimizers import Optimizer

try:
    from sklearn.utils.validation import validate_data
except ImportError:  # before scikit-learn 1.6
    def validate_data(estimator: Any, *arrays: Any, **more: Any) -> Any:
        return estimator._validate_data(*arrays, **more)


class _Estimator(BaseEstimator):  # type: ignore[misc,unused-ignore]
    """What the estimators have in common: a model that is made when the data is known."""
    max_iter: int
    batch_size: Union[int, str]
    tol: float
    n_iter_no_change: int
    random_state: Any
    warm_start: bool
    verbose: bool
    threads: int
    _sparse = False

    def _layers(self, outputs: int) -> list[layers.Layer]:
        raise NotImplementedError

    def _settings(self, batch: int) -> dict[str, Any]:
        raise NotImplementedError

    def _check(self, *arrays: Any, reset: bool = True) -> Any:
        """Rows alone, or rows and what is known of them."""
        more: dict[str, Any] = {"accept_sparse": "csr"} if self._sparse else {}
        if len(arrays) == 2 and isinstance(self, RegressorMixin):
            more.update(multi_output=True, y_numeric=True)
        return validate_data(self, *arrays, reset=reset, dtype=[np.float32, np.float64], **more)

    def _rows(self, x: Any) -> Any:
        if not self._sparse:
            return np.ascontiguousarray(x, np.float32)
        from scipy.sparse import csr_matrix

        return csr_matrix(x, dtype=np.float32)

    def _batch(self, rows: int) -> int:
        return min(200, rows) if self.batch_size == "auto" else min(int(self.batch_size), rows)

    def _begin(self, x: Any, outputs: int) -> None:
        seed = int(check_random_state(self.random_state).randint(2 ** 31))
        self.model_ = Sequential([layers.Input((x.shape[1],), sparse=self._sparse), *self._layers(outputs)])
        self.model_.compile(seed=seed, threads=self.threads, **self._settings(self._batch(x.shape[0])))
        self.n_iter_ = 0
        self.loss_curve_: list[float] = []

    def _learn(self, x: Any, y: Any, epochs: int) -> None:
        told = [EarlyStopping("loss", self.n_iter_no_change, self.tol)] if epochs > 1 else []
        history = self.model_.fit(self._rows(x), y, epochs=epochs, batch_size=self._batch(x.shape[0]), callbacks=told,
                                  verbose=self.verbose)
        self.n_iter_ += history.epochs
        self.loss_curve_ = [*self.loss_curve_, *history["loss"]]
        self.loss_ = history["loss"][-1]

    def _outputs(self, x: Any) -> Array:
        check_is_fitted(self, "n_iter_")
        found: Array = self.model_.predict(self._rows(self._check(x, reset=False)))
        return found


class _Classifier(ClassifierMixin, _Estimator):  # type: ignore[misc,unused-ignore]
    classes_: Array

    def _encode(self, y: Any) -> Array:
        numbers = np.searchsorted(self.classes_, y)
        known: Array = np.clip(numbers, 0, len(self.classes_) - 1)
        if not np.array_equal(self.classes_[known], y):
            raise ValueError(f"y has labels that are not among the classes {list(self.classes_)}")
        return known

    def _start(self, x: Any, y: Any, classes: Any) -> None:
        check_classification_targets(y)
        self.classes_ = unique_labels(y) if classes is None else unique_labels(classes)
        if len(self.classes_) < 2:
            raise ValueError(f"a classifier needs at least 2 classes, but y has one class: {self.classes_[0]!r}")
        self._begin(x, len(self.classes_))

    def fit(self, X: Any, y: Any) -> Any:
        """Learns from rows X and their labels y, of any kind."""
        x, y = self._check(X, y)
        if not (self.warm_start and hasattr(self, "model_")):
            self._start(x, y, None)
        self._learn(x, self._encode(y), self.max_iter)
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Any:
        """One pass over some more rows. classes: all there will be, to be said the first time."""
        first = not hasattr(self, "model_")
        x, y = self._check(X, y, reset=first)
        if first:
            self._start(x, y, classes)
        self._learn(x, self._encode(y), 1)
        return self

    def predict_proba(self, X: Any) -> Array:
        """[rows, classes]"""
        return self._outputs(X)

    def predict(self, X: Any) -> Array:
        """The likeliest class of each row."""
        found: Array = self.classes_[self.predict_proba(X).argmax(axis=1)] if hasattr(self, "classes_") else self._outputs(X)
        return found


class _Network(_Estimator):
    """Dense layers; parameters are called as in scikit-learn."""

    def __init__(self, hidden_layer_sizes: Sequence[int] = (100,), activation: str = "relu", *, solver: str = "adam",
                 alpha: float = 1e-4, batch_size: Union[int, str] = "auto", learning_rate_init: float = 1e-3, max_iter: int = 200,
                 random_state: Any = None, tol: float = 1e-4, verbose: bool = False, warm_start: bool = False,
                 momentum: float = 0.9, n_iter_no_change: int = 10, threads: int = 1) -> None:
        self.hidden_layer_sizes = hidden_layer_sizes
        self.activation = activation
        self.solver = solver
        self.alpha = alpha
        self.batch_size = batch_size
        self.learning_rate_init = learning_rate_init
        self.max_iter = max_iter
        self.random_state = random_state
        self.tol = tol
        self.verbose = verbose
        self.warm_start = warm_start
        self.momentum = momentum
        self.n_iter_no_change = n_iter_no_change
        self.threads = threads

    _last: Optional[str] = None

    def _layers(self, outputs: int) -> list[layers.Layer]:
        word = {"identity": "linear", "logistic": "sigmoid"}.get(self.activation, self.activation)
        sizes = self.hidden_layer_sizes
        hidden = [sizes] if isinstance(sizes, (int, np.integer)) else list(sizes)
        return [*(layers.Dense(int(n), word) for n in hidden), layers.Dense(outputs, self._last)]

    def _settings(self, batch: int) -> dict[str, Any]:
        if self.solver == "sgd":
            optimizer = Optimizer("momentum", self.learning_rate_init, momentum=self.momentum)
        else:
            optimizer = Optimizer(self.solver, self.learning_rate_init)
        return {"optimizer": optimizer, "l2": self.alpha / batch}


class MLPClassifier(_Classifier, _Network):
    """A network of dense layers that tells classes apart, as scikit-learn's of the same name."""
    _last = "softmax"


class MLPRegressor(RegressorMixin, _Network):  # type: ignore[misc,unused-ignore]
    """A network of dense layers that predicts one number a row, or several."""

    def _settings(self, batch: int) -> dict[str, Any]:
        return {**super()._settings(batch), "loss": "mse"}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _more_tags(self) -> dict[str, Any]:
        return {"multioutput": True}

    def _shaped(self, y: Any) -> Array:
        return np.ascontiguousarray(y, np.float32)

    def fit(self, X: Any, y: Any) -> Any:
        """Learns from rows X and the numbers y, [rows] or [rows, numbers]."""
        x, y = self._check(X, y)
        if not (self.warm_start and hasattr(self, "model_")):
            self._one = y.ndim == 1
            self._begin(x, 1 if y.ndim == 1 else y.shape[1])
        self._learn(x, self._shaped(y), self.max_iter)
        return self

    def partial_fit(self, X: Any, y: Any) -> Any:
        """One pass over some more rows."""
        first = not hasattr(self, "model_")
        x, y = self._check(X, y, reset=first)
        if first:
            self._one = y.ndim == 1
            self._begin(x, 1 if y.ndim == 1 else y.shape[1])
        self._learn(x, self._shaped(y), 1)
        return self

    def predict(self, X: Any) -> Array:
        """[rows] or [rows, numbers]"""
        out = self._outputs(X).astype(np.float64)
        return out[:, 0] if self._one else out


class SparseLogisticRegression(_Classifier):
    """Two classes by logistic regression on sparse rows: CSR of float32 is not copied. A step touches only the weights of the
    features in its batch, so millions of features are fine. optimizer "ftrl" with l1 keeps most weights at exactly zero."""
    _sparse = True

    def __init__(self, *, optimizer: str = "adagrad", learning_rate: float = 0.3, l1: float = 0.0, l2: float = 0.0,
                 batch_size: Union[int, str] = 32, max_iter: int = 100, tol: float = 1e-4, n_iter_no_change: int = 5,
                 fit_intercept: bool = True, random_state: Any = None, warm_start: bool = False, verbose: bool = False,
                 threads: int = 1) -> None:
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.l1 = l1
        self.l2 = l2
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.tol = tol
        self.n_iter_no_change = n_iter_no_change
        self.fit_intercept = fit_intercept
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose
        self.threads = threads

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.sparse = True
        return tags

    def _more_tags(self) -> dict[str, Any]:
        return {"binary_only": True}

    def _start(self, x: Any, y: Any, classes: Any) -> None:
        found = unique_labels(y) if classes is None else unique_labels(classes)
        if len(found) > 2:
            raise ValueError(f"Only binary classification is supported. The type of the target is multiclass: {len(found)} classes; "
                             "wrap it in sklearn.multiclass.OneVsRestClassifier")
        super()._start(x, y, classes)

    def _layers(self, outputs: int) -> list[layers.Layer]:
        return [layers.SparseDense(1, "sigmoid", self.fit_intercept)]

    def _settings(self, batch: int) -> dict[str, Any]:
        more = {"l1": self.l1} if self.optimizer == "ftrl" else {}
        return {"optimizer": Optimizer(self.optimizer, self.learning_rate, **more), "l2": self.l2}

    def decision_function(self, X: Any) -> Array:
        """Log-odds of the second class."""
        p = np.clip(self.predict_proba(X)[:, 1].astype(np.float64), 1e-12, 1 - 1e-12)
        return np.asarray(np.log(p / (1 - p)))

    @property
    def coef_(self) -> Array:
        """[1, features]"""
        return next(iter(self.model_.get_weights().values())).reshape(1, -1)
