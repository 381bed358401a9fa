import type { CONFIG_KEYS } from './config-keys.ts'

type Camel<Name> = Name extends `${infer Head}_${infer Tail}` ? `${Head}${Capitalize<Camel<Tail>>}` : Name

/** The name in {@link EngineConfig}; never for a key that ends at validation. */
type OutputName<Name, Row> = Row extends { readonly kind: 'replaced' }
  ? never
  : Row extends { readonly as: infer Given }
    ? Given
    : Camel<Name>

type Choice<Row> = Row extends { readonly of: readonly (infer Word)[] }
  ? Row extends { readonly notYet: readonly (infer Missing)[] }
    ? Exclude<Word, Missing>
    : Word
  : never

/** What a key gives, by its kind. */
type ValueOf<Row extends { readonly kind: string }> = Row['kind'] extends 'choice'
  ? Choice<Row>
  : Row['kind'] extends 'boolean' | 'replaced'
    ? boolean
    : Row['kind'] extends 'integer' | 'number' | 'mebibytes' | 'duration'
      ? number
      : Row['kind'] extends 'map'
        ? Readonly<Record<string, unknown>>
        : Row['kind'] extends 'list'
          ? readonly string[] | (Row extends { readonly default: unknown } ? never : undefined)
          : string

type OutputOf<Block> = {
  readonly [Name in keyof Block as OutputName<Name, Block[Name]> & string]: Block[Name] extends {
    readonly kind: string
  }
    ? ValueOf<Block[Name]>
    : OutputOf<Block[Name]>
}

type InputOf<Block> = {
  readonly [Name in keyof Block as Name extends '*' ? string : Name]?: Block[Name] extends { readonly kind: string }
    ? Name extends '*'
      ? unknown
      : Block[Name]['kind'] extends 'duration'
        ? DurationInput
        : ValueOf<Block[Name]>
    : InputOf<Block[Name]>
}

type Values = OutputOf<typeof CONFIG_KEYS>

/** A validated configuration: every default applied, paths absolute, durations in milliseconds, sizes in bytes. */
export interface EngineConfig extends Omit<Values, 'core'> {
  readonly core: Omit<Values['core'], 'sessions' | 'objectStore'> & {
    readonly sessions: Values['core']['sessions'] & {
      /** Whether the key was written: the default never removes a session that exists nowhere else. */
      readonly retentionExplicit: boolean
    }
    /** Undefined without a backend: nothing of the object store runs then. */
    readonly objectStore: ObjectStoreSettings | undefined
  }
}

/** The `core.object_store` block. Strings are empty where nothing was configured. */
export type ObjectStoreSettings = Values['core']['objectStore']

/** How much is logged. */
export type LogLevel = Values['core']['logLevel']

/** When the journal is fsynced. */
export type FsyncPolicy = Values['journal']['fsync']

/** A duration as written in YAML: `30d`, `12h`, `5m`, `10s`, `250ms`, `1h30m`; the number 0. */
export type DurationInput = string | 0

/** What `Engine.fromConfig` takes: the keys of the YAML file. Everything has a default. */
export type ConfigInput = InputOf<typeof CONFIG_KEYS>
