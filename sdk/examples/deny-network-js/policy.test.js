import assert from "node:assert";
import test from "node:test";

import { denial, problems } from "./policy.js";

const config = { networks: ["storage"], except: ["backup"] };
const pod = (namespace) => ({ pod: { namespace, name: "web-1" } });

test("who may join", () => {
  assert.equal(denial(config, "front", pod("shop")), undefined);
  assert.equal(denial(config, "storage", pod("backup")), undefined);
  assert.match(denial(config, "storage", pod("shop")), /namespace shop/);
  assert.match(denial(config, "storage", {}), /without a namespace/);
});

test("a config that denies nothing is a mistake", () => {
  assert.deepEqual(problems(config), []);
  for (const wrong of [{}, { networks: [] }, { networks: "storage" }, { ...config, network: "x" }]) {
    assert.notEqual(problems(wrong).length, 0);
  }
});
