import { describe, it } from 'vitest'
import '../src/index.js'
import { defineSuites } from '../src/suites.js'

defineSuites({ describe, it: (title, run) => it(title, run, 60_000) })
