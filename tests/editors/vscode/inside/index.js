// Runs the tests of this folder in VS Code's extension host, one after the other, and writes what came of each.
const { writeFileSync, renameSync } = require("node:fs");
const { Skipped, tests } = require("./harness");

const SECONDS = 120;

exports.run = async () => {
  const only = new RegExp(process.env.WARMLINE_TEST_ONLY || "");
  const target = process.env.WARMLINE_TEST_RESULT;
  const results = {};
  try {
    require("./suggestions");
    require("./states");
    require("./variants");
    for (const [name, body] of tests) {
      if (only.test(name)) {
        const begun = Date.now();
        // Who gives up waiting sees how far it came.
        writeFileSync(`${target}.part`, JSON.stringify({ ...results, [name]: "runs" }, null, 2));
        results[name] = { ...(await outcome(body)), seconds: (Date.now() - begun) / 1000 };
      }
    }
  } catch (error) {
    results.loading = { error: String(error?.stack ?? error) };
  }
  // By a rename, so that whoever waits for the file finds all of it.
  writeFileSync(`${target}.part`, JSON.stringify(results, null, 2));
  renameSync(`${target}.part`, target);
};

function outcome(body) {
  let timer;
  const late = new Promise((resolve) => {
    timer = setTimeout(() => resolve({ error: `took longer than ${SECONDS} s` }), SECONDS * 1000);
  });
  const ran = (async () => body())().then(
    () => ({ error: null }),
    (error) => (error instanceof Skipped ? { error: null, skipped: error.message } : { error: String(error?.stack ?? error) }),
  );
  return Promise.race([ran, late]).finally(() => clearTimeout(timer));
}
