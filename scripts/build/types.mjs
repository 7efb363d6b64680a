// Runs the TypeScript compiler, which checks types and writes no files.

import { nodeBinary } from '../lib/node.mjs';
import { inProject } from '../lib/paths.mjs';
import { run } from '../lib/run.mjs';

/** The configurations for JavaScript, whose types are in JSDoc comments. */
export const JAVASCRIPT_PROJECTS = ['tsconfig.json', 'tsconfig.runtime.json'];

/**
 * Checks the types of a project.
 * @param {string} project path of its configuration, or of the folder with `tsconfig.json`
 * @param {(line: string) => boolean | void} onLine called for each line of the compiler
 * @throws {import('../lib/errors.mjs').CommandFailed} when the compiler finds an error
 */
export async function checkTypes(project, onLine) {
  await run(nodeBinary(), [inProject('node_modules', 'typescript', 'bin', 'tsc'), '--project', inProject(project)], { onLine });
}
