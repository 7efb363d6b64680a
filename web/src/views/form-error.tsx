/** The error of a form field. */

import { X } from 'lucide-preact';
import type { StartField } from '../content/start-error.ts';

/** ARIA attributes that connect an invalid field to its error. */
export const errorAttributes = (field: StartField, error: string | null) =>
  error === null ? {} : { 'aria-invalid': true, 'aria-describedby': `${field}-error` };

export function FieldError({ field, text }: { field: StartField; text: string | null }) {
  return (
    text && (
      <p id={`${field}-error`} class="field-status invalid" role="alert">
        <X size={15} /> {text}
      </p>
    )
  );
}
