/** Errors that the user can fix. */

/** Printed without a stack trace. */
export class UserError extends Error {
  /**
   * @param {string} message what is wrong
   * @param {string} [hint] what to do about it
   */
  constructor(message, hint) {
    super(message);
    this.hint = hint;
  }
}

/** Invalid arguments. The exit code is 2. */
export class UsageError extends UserError {}
