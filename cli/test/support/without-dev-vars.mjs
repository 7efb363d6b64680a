/** Runs the CLI as if the project had no `.dev.vars`, whose token it would use for a hub on this computer. */

import { fileURLToPath } from 'node:url';
import { runProgram } from 'session-gateway-cli-kit/program';
import { program } from '../../src/program.mjs';

runProgram({ ...program, devVars: '', entry: fileURLToPath(import.meta.url) });
