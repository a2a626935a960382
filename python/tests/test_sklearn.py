"""The estimators: scikit-learn's own checks, its own data sets, pipelines, searches, pickles."""
import pickle
import unittest
import warnings

import support

support.need("numpy", "scipy", "sklearn")
import numpy as np  # noqa: E402
import scipy.sparse  # noqa: E402
from shoal.sklearn import MLPClassifier, MLPRegressor, SparseLogisticRegression  # noqa: E402
from sklearn import datasets, linear_model, neural_network  # noqa: E402
from sklearn.model_selection import GridSearchCV, train_test_split  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import StandardScaler  # noqa: E402
from sklearn.utils.estimator_checks import check_estimator  # noqa: E402

warnings.simplefilter("ignore")


class Checks(unittest.TestCase):
    def test_classifier(self):
        check_estimator(MLPClassifier((16,), learning_rate_init=0.02, batch_size=20, random_state=1))

    def test_regressor(self):
        check_estimator(MLPRegressor((16,), learning_rate_init=0.02, batch_size=20, random_state=1))

    def test_sparse(self):
        check_estimator(SparseLogisticRegression(max_iter=20, random_state=1))


class Data(unittest.TestCase):
    def compare(self, data, mine, theirs):
        x, y = getattr(datasets, "load_" + data)(return_X_y=True)
        rows = train_test_split(x, y, random_state=0)
        scores = [make_pipeline(StandardScaler(), e).fit(rows[0], rows[2]).score(rows[1], rows[3]) for e in (mine, theirs)]
        print(data, [round(s, 4) for s in scores])
        self.assertGreaterEqual(scores[0], scores[1] - 0.01, data)

    def test_as_good_as_theirs(self):
        self.compare("breast_cancer", SparseLogisticRegression(random_state=0), linear_model.LogisticRegression())
        for name in ("breast_cancer", "digits", "wine"):
            self.compare(name, MLPClassifier((50,), max_iter=100, random_state=0),
                         neural_network.MLPClassifier(hidden_layer_sizes=(50,), max_iter=100, random_state=0))
        x, y = datasets.load_diabetes(return_X_y=True)
        rows = train_test_split(x, y, random_state=0)
        means = [np.mean([make_pipeline(StandardScaler(), kind(hidden_layer_sizes=(30,), learning_rate_init=0.01, max_iter=400, random_state=seed))
                          .fit(rows[0], rows[2]).score(rows[1], rows[3]) for seed in range(3)])
                 for kind in (MLPRegressor, neural_network.MLPRegressor)]  # few rows: the mean of three beginnings
        print("diabetes", means)
        self.assertGreaterEqual(means[0], means[1] - 0.01)

    def test_used_as_others_are(self):
        x, y = datasets.load_wine(return_X_y=True)
        names = np.array(["barolo", "grignolino", "barbera"])[y]
        search = GridSearchCV(make_pipeline(StandardScaler(), MLPClassifier(max_iter=100, learning_rate_init=0.01, random_state=0)),
                              {"mlpclassifier__hidden_layer_sizes": [(4,), (32,)]}, cv=2).fit(x, names)
        self.assertGreater(search.best_score_, 0.9)
        again = pickle.loads(pickle.dumps(search))
        np.testing.assert_array_equal(again.predict(x), search.predict(x))

    def test_partial_fit(self):
        x, y = datasets.load_breast_cancer(return_X_y=True)
        x = StandardScaler().fit_transform(x)
        for model in (MLPClassifier(random_state=0), SparseLogisticRegression(random_state=0)):
            for i in range(0, 500, 50):
                model.partial_fit(x[i:i + 50], y[i:i + 50], classes=[0, 1])
            self.assertGreater(model.score(x[500:], y[500:]), 0.9)
            with self.assertRaisesRegex(ValueError, "not among"):
                model.partial_fit(x[:3], [0, 1, 7])

    def test_sparse_rows(self):
        rng = np.random.default_rng(0)
        entries, rows = 60000, 3000
        x = scipy.sparse.csr_matrix((rng.random(entries, np.float32), (np.arange(entries) % rows, rng.integers(0, 100000, entries))), (rows, 100000))
        y = np.where(x @ rng.normal(size=100000) > 0, "click", "none")
        model = SparseLogisticRegression(max_iter=20, random_state=0).fit(x, y)
        self.assertGreater(model.score(x, y), 0.95)
        self.assertEqual(model.coef_.shape, (1, 100000))
        few = SparseLogisticRegression(optimizer="ftrl", l1=0.05, max_iter=5).fit(x, y)
        self.assertGreater((few.coef_ == 0).mean(), 0.1)


if __name__ == "__main__":
    support.main()
