import { describe, it } from 'vitest'
import '../src/index.js'
import { defineSuites } from '../src/suites.js'

defineSuites({ describe, it })
