// The module's exports: JSON in, a verdict out. What is thrown is the error of the contract.

import { denial, problems } from "./policy.js";

/** Asked for every attachment of a pod before the first one is made. */
export const admit = {
  admit(call, _config) {
    const own = JSON.parse(call.config);
    const wrong = problems(own);
    if (wrong.length > 0) {
      const text = wrong.map(({ path, message }) => `${path} ${message}`).join("; ");
      throw { tag: "invalid-config", val: text };
    }
    const reason = denial(own, call.network, JSON.parse(call.context));
    if (reason !== undefined) throw { tag: "denied", val: reason };
    return { tag: "allow" };
  },
};

/** Asked by `catenactl check`, so that a wrong config is found before a pod comes. */
export const settings = {
  validate(config) {
    const wrong = problems(JSON.parse(config));
    if (wrong.length > 0) throw wrong;
  },
};
