// The TypeScript compiler, which checks types and writes no files.

import { nodeBinary } from './node.mjs';
import { inProject } from './paths.mjs';
import { run } from './run.mjs';

/**
 * Checks the types of a project.
 * @param {string} project path of the folder with its `tsconfig.json`
 * @param {(line: string) => boolean | void} onLine called for each line of the compiler
 * @throws {import('./errors.mjs').CommandFailed} when it found an error
 */
export async function checkTypes(project, onLine) {
  await run(nodeBinary(), [inProject('node_modules', 'typescript', 'bin', 'tsc'), '--project', project], { onLine });
}
