/** The choice of the place where a session starts: a recent directory, or any other one. */

import { Check, FolderSearch, LoaderCircle, X } from 'lucide-preact';
import { Suspense } from 'preact/compat';
import { useEffect, useState } from 'preact/hooks';
import type { Machine } from '../api/types.ts';
import { isOutsideServedDirectories, machineName, servedDirectories } from '../state/machine-info.ts';
import { getOwn } from '../state/get-own.ts';
import { directoryExists } from '../state/machines.ts';
import { type Place, placeKey } from '../state/places.ts';
import type { ChosenPlace } from '../state/start-place.ts';
import { machines } from '../state/store.ts';
import { errorAttributes, FieldError } from './form-error.tsx';
import { lazy } from './lazy.tsx';
import { PinButton } from './pin-button.tsx';

const DirectoryBrowser = lazy(() => import('./directory-browser.tsx').then(({ DirectoryBrowser }) => DirectoryBrowser));

const CHECK_DEBOUNCE_MS = 300;
const PLACES_PER_STEP = 5;

interface Props {
  places: Place[];
  value: ChosenPlace;
  /** The machines that are online, and the machine of `value`. */
  machines: Machine[];
  /** The machine of `value`; undefined if it was not online since the form is open. */
  machine: Machine | undefined;
  error: string | null;
  onChange: (place: ChosenPlace) => void;
}

export function PlaceField({ places, value, machines: known, machine, error, onChange }: Props) {
  const [count, setCount] = useState(PLACES_PER_STEP);
  return (
    <div class="field">
      {places.length > 0 && (
        <fieldset class="plain places">
          <legend class="label">Where</legend>
          {places.slice(0, count).map(({ machine: { id }, directory, label, path }) => (
            <div key={placeKey(id, directory)} class="place-row">
              <label class="place">
                <input
                  type="radio"
                  name="place"
                  checked={!value.isOther && value.machineId === id && value.directory === directory}
                  onChange={() => onChange({ machineId: id, directory, isOther: false })}
                />
                <span>
                  <span class="place-label">{label}</span>
                  <span class="mono muted small ellipsis">{path}</span>
                </span>
              </label>
              <PinButton machineId={id} directory={directory} label={label} />
            </div>
          ))}
          {places.length > count && (
            <button type="button" class="button quiet" onClick={() => setCount(count + PLACES_PER_STEP)}>
              Show more directories
            </button>
          )}
          <label class="place">
            <input
              type="radio"
              name="place"
              checked={value.isOther}
              onChange={() => onChange({ machineId: value.machineId, directory: '', isOther: true })}
            />
            <span class="place-label">Another directory …</span>
          </label>
        </fieldset>
      )}
      {value.isOther && (
        <OtherPlace
          machines={known}
          machine={machine}
          machineId={value.machineId}
          directory={value.directory}
          error={error}
          onChange={(changes) => onChange({ ...value, ...changes })}
        />
      )}
    </div>
  );
}

interface OtherProps {
  machines: Machine[];
  machine: Machine | undefined;
  machineId: string;
  directory: string;
  error: string | null;
  onChange: (changes: Partial<ChosenPlace>) => void;
}

function OtherPlace({ machines: known, machine, machineId, directory, error, onChange }: OtherProps) {
  const names = known.map(machineName);
  /** Machines of one name are told apart by their ids. */
  const label = (item: Machine) => {
    const name = machineName(item);
    const distinct = names.filter((other) => other === name).length > 1 ? `${name} · ${item.id.slice(0, 8)}` : name;
    return getOwn(machines.value, item.id) ? distinct : `${distinct} (offline)`;
  };
  return (
    <>
      <div class="field">
        <label for="machine">Machine</label>
        <select id="machine" class="input" value={machineId} onChange={({ currentTarget }) => onChange({ machineId: currentTarget.value })}>
          {!machine && <option value={machineId}>{machineId.slice(0, 8)} (offline)</option>}
          {known.map((item) => (
            <option key={item.id} value={item.id}>
              {label(item)}
            </option>
          ))}
        </select>
      </div>
      {machine && <DirectoryField machine={machine} value={directory} error={error} onChange={(next) => onChange({ directory: next })} />}
    </>
  );
}

type DirectoryCheck = 'unknown' | 'checking' | 'exists' | 'missing';

interface DirectoryProps {
  machine: Machine;
  value: string;
  error: string | null;
  onChange: (directory: string) => void;
}

function DirectoryField({ machine, value, error, onChange }: DirectoryProps) {
  const check = useDirectoryCheck(machine.id, value.trim());
  const [isBrowsing, setBrowsing] = useState(false);
  const hint = {
    unknown: 'The directory that the agent works in, such as /code/demo',
    checking: 'Checking …',
    exists: 'Directory found',
    missing: isOutsideServedDirectories(value.trim(), machine)
      ? `Not served by this machine, only: ${servedDirectories(machine).join(', ')}`
      : 'Directory not found on this machine',
  }[check];
  return (
    <div class="field">
      <label for="directory">Directory</label>
      <div class="row">
        <input
          id="directory"
          class="input mono"
          required
          value={value}
          autocomplete="off"
          autocapitalize="none"
          spellcheck={false}
          aria-describedby="directory-check"
          {...errorAttributes('directory', error)}
          onInput={({ currentTarget }) => onChange(currentTarget.value)}
        />
        <button type="button" class="button browse" aria-haspopup="dialog" onClick={() => setBrowsing(true)}>
          <FolderSearch size={18} /> Browse
        </button>
      </div>
      {isBrowsing && (
        <Suspense fallback={null}>
          <DirectoryBrowser
            machine={machine}
            directory={check === 'exists' ? value.trim() : ''}
            onSelect={onChange}
            onClose={() => setBrowsing(false)}
          />
        </Suspense>
      )}
      <FieldError field="directory" text={error} />
      <p id="directory-check" role="status" class={`field-status ${check === 'exists' ? 'valid' : check === 'missing' ? 'invalid' : ''}`}>
        {check === 'exists' && <Check size={15} />}
        {check === 'missing' && <X size={15} />}
        {check === 'checking' && <LoaderCircle size={15} class="spinning" />}
        {hint}
      </p>
    </div>
  );
}

/** Checks whether a directory exists on a machine, debounced. */
function useDirectoryCheck(machineId: string, directory: string): DirectoryCheck {
  const [check, setChecked] = useState<DirectoryCheck>('unknown');
  useEffect(() => {
    setChecked('unknown');
    if (directory === '') return undefined;
    let isCurrent = true;
    const timer = setTimeout(async () => {
      setChecked('checking');
      const found = await directoryExists(machineId, directory).then(
        (exists): DirectoryCheck => (exists ? 'exists' : 'missing'),
        (): DirectoryCheck => 'unknown',
      );
      if (isCurrent) setChecked(found);
    }, CHECK_DEBOUNCE_MS);
    return () => {
      isCurrent = false;
      clearTimeout(timer);
    };
  }, [machineId, directory]);
  return check;
}
