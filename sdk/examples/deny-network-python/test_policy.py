import unittest

import policy

CONFIG = {"networks": ["storage"], "except": ["backup"]}


def pod(namespace):
    return {"pod": {"namespace": namespace, "name": "web-1"}}


class Policy(unittest.TestCase):
    def test_who_may_join(self):
        self.assertIsNone(policy.denial(CONFIG, "front", pod("shop")))
        self.assertIsNone(policy.denial(CONFIG, "storage", pod("backup")))
        self.assertIn("namespace shop", policy.denial(CONFIG, "storage", pod("shop")))
        self.assertIn("without a namespace", policy.denial(CONFIG, "storage", {}))

    def test_a_config_that_denies_nothing_is_a_mistake(self):
        self.assertEqual(policy.problems(CONFIG), [])
        for wrong in ({}, {"networks": []}, {"networks": "storage"}, {**CONFIG, "network": "x"}):
            self.assertTrue(policy.problems(wrong), wrong)


if __name__ == "__main__":
    unittest.main()
