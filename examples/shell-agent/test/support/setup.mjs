/** Set-up for tests of the whole agent. */

import { setUpApp } from '../../../../packages/cli-kit/test/support/app.mjs';
import { program } from '../../src/program.mjs';

/** Starts an in-memory hub and creates a repository. `start` starts an agent, which ends with the test. */
export const setUp = (t) => setUpApp(t, program, { flavor: 'alpha' });
