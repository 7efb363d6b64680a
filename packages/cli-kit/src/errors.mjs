/** Errors that the user can fix. */

/** An error that is printed without a stack trace. */
export class UserError extends Error {
  /**
   * @param {string} message what is wrong
   * @param {string} [hint] what the user can do
   */
  constructor(message, hint) {
    super(message);
    this.hint = hint;
  }
}

/** Invalid arguments. The exit code is 2. */
export class UsageError extends UserError {}
