/** A search field. */

import { Search as SearchIcon } from 'lucide-preact';

interface Props {
  id?: string;
  label: string;
  placeholder: string;
  value: string;
  onChange: (value: string) => void;
}

/** `label`: the accessible name of the field. */
export function SearchField({ id, label, placeholder, value, onChange }: Props) {
  return (
    <div class="search">
      <SearchIcon size={16} />
      <input
        {...(id === undefined ? {} : { id })}
        class="input"
        type="search"
        placeholder={placeholder}
        aria-label={label}
        value={value}
        onInput={({ currentTarget }) => onChange(currentTarget.value)}
      />
    </div>
  );
}
