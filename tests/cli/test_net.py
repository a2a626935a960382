"""What goes over the wire: keys, and peers that speak nonsense to a cluster at work."""
import support


class Keys(support.Case):
    def test_local_cluster_with_keys(self):
        self.shoal("keygen", "keys")
        flags = ["--epochs", 2, "--batch-size", 20, "--workers", 2, "--transport", "zmq"]
        self.train("softmax", "plain", *flags)
        self.train("softmax", "curve", *flags, "--keys", "keys")
        weights = [(self.folder / run / "model.safetensors").read_bytes() for run in ("plain", "curve")]
        self.assertEqual(*weights)
        (self.folder / "keys" / "client.pub").unlink()  # the server no longer knows its clients
        _, err = self.train("softmax", "refused", *flags, "--keys", "keys", "--deadline", 3, expect=1)
        self.assertIn("does not allow our key", err)

    def test_keys_that_mean_nothing_are_refused(self):
        self.assertIn("--transport zmq", self.train("softmax", "r", "--workers", 2, "--keys", "keys", expect=2)[1])
        self.assertIn("--strategy ps", self.train("softmax", "r", "--keys", "keys", expect=2)[1])


support.main()
