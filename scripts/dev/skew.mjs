// `npm run skew`: tests the version of this commit together with a version several changes back.

import { parseCommandLine } from '../lib/command-line.mjs';
import { main, UsageError, UserError } from '../lib/errors.mjs';
import { inProject } from '../lib/paths.mjs';
import { findCommitBefore } from '../build/previous.mjs';
import { runOnTerminal } from '../lib/run.mjs';

const DEFAULT_BACK = 2;

const USAGE = `Usage: npm run skew [-- --back N]

Runs tests/e2e/skew.test.mjs with the worker before its last N changes, instead of the worker of the newest tag or before its
last change. Takes some minutes, because both versions are built.

  --back N  how many of the last commits that changed the worker are left out (default ${DEFAULT_BACK})
  --help    this text`;

await main(async () => {
  const options = parseCommandLine(process.argv.slice(2), USAGE, { back: { type: 'string', default: String(DEFAULT_BACK) } });
  if (!/^[1-9]\d{0,2}$/.test(options.back)) throw new UsageError('--back must be a number from 1 to 999.', USAGE);
  const commit = findCommitBefore(Number(options.back));
  if (!commit)
    throw new UserError(`This clone does not have ${options.back} changes of the worker.`, 'Fetch them with: git fetch --unshallow');
  console.log(`The earlier version is commit ${commit}.`);
  const test = [inProject('scripts', 'gate', 'test.mjs'), '--file', 'tests/e2e/skew.test.mjs'];
  return runOnTerminal(process.execPath, test, { env: { PREVIOUS_COMMIT: commit } });
});
