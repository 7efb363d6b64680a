/** Runs the example agent as if the project had no `.dev.vars`, whose token it would use for a hub on this computer. */

import { fileURLToPath } from 'node:url';
import { program } from '../../../examples/shell-agent/src/program.mjs';
import { runProgram } from '../../../packages/cli-kit/src/program.mjs';

runProgram({ ...program, devVars: '', entry: fileURLToPath(import.meta.url) });
