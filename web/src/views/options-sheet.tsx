/** The options of an agent other than its mode, model and effort, as a sheet. */

import './options-sheet.css';
import { useId, useState } from 'preact/hooks';
import { errorText } from '../api/errors.ts';
import type { AgentOption } from '../content/agent-options.ts';
import * as actions from '../state/actions.ts';
import { ErrorNotice } from '../ui/loading.tsx';
import { SheetFrame } from '../ui/sheet.tsx';

interface Props {
  sessionId: string;
  options: AgentOption[];
  onClose: () => void;
}

export function OptionsSheet({ sessionId, options, onClose }: Props) {
  return (
    <SheetFrame title="Options of the agent" onClose={onClose}>
      {(close) => (
        <>
          <ul role="list" class="agent-options">
            {options.map((option) => (
              <li key={option.id}>
                <Option sessionId={sessionId} option={option} />
              </li>
            ))}
          </ul>
          <button type="button" class="button" onClick={close}>
            Close
          </button>
        </>
      )}
    </SheetFrame>
  );
}

/** Shows the old value until an event confirms the new value. */
function Option({ sessionId, option: { id, label, description, value, choices } }: { sessionId: string; option: AgentOption }) {
  const fieldId = useId();
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<string | null>(null);
  const change = async (next: string | boolean) => {
    setBusy(true);
    setError(null);
    await actions.setOption(sessionId, id, next).catch((failure: unknown) => setError(errorText(failure)));
    setBusy(false);
  };
  const current = choices.find((choice) => choice.id === value);
  const help = (description || current?.description) && (
    <span id={`${fieldId}-help`} class="muted small">
      {description}
      {description && current?.description && <br />}
      {current?.description}
    </span>
  );
  const attributes = { id: fieldId, disabled: isBusy, ...(help ? { 'aria-describedby': `${fieldId}-help` } : {}) };
  return (
    <div class="agent-option">
      <label for={fieldId}>{label}</label>
      {typeof value === 'boolean' ? (
        <input
          type="checkbox"
          {...attributes}
          checked={value}
          onChange={({ currentTarget }) => {
            const next = currentTarget.checked;
            currentTarget.checked = value;
            void change(next);
          }}
        />
      ) : (
        <select
          class="input"
          {...attributes}
          value={value}
          onChange={({ currentTarget }) => {
            const next = currentTarget.value;
            currentTarget.value = value;
            void change(next);
          }}
        >
          {!current && <option value={value}>{value}</option>}
          {choices.map((choice) => (
            <option key={choice.id} value={choice.id}>
              {choice.label}
            </option>
          ))}
        </select>
      )}
      {help}
      <ErrorNotice text={error} />
    </div>
  );
}
