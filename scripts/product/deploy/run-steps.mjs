// Runs the steps of a deployment.

import { UserError } from '../../lib/errors.mjs';
import { dim, runStep } from '../../lib/progress.mjs';

/**
 * Runs steps one after another, and prints their progress and results.
 * @param {import('./steps.mjs').Step[]} steps
 * @param {import('./steps.mjs').Run} runState
 * @throws {UserError} of the first step that failed, with advice
 */
export async function runSteps(steps, runState) {
  for (const { title, printsProgress, run } of steps) {
    try {
      const result = printsProgress ? await run(runState, () => {}) : await runStep(title, (update) => run(runState, update));
      if (result) console.log(dim(`    ${result}`));
    } catch (error) {
      if (!(error instanceof UserError)) throw error;
      const advice = `The step "${title}" failed. Run the same command again: it continues there.`;
      error.hint = error.hint ? `${error.hint}\n${advice}` : advice;
      throw error;
    }
  }
}
